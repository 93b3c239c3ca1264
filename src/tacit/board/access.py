"""Who may read the board: anyone who has the token of its address, through this machine's own name.

The token is exchanged for a cookie at the first visit, so that no address that a browser keeps, shows or links to can
open the board. The cookie is sent to this board only: other servers on 127.0.0.1 share its name, not its path. A page
elsewhere that has its own name point to 127.0.0.1 (DNS rebinding) gives itself away by the Host header.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

_COOKIE = "tacit-board"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one board. Drawn anew at each start."""

    token: str
    ticket: str  # as good as the token, once: an address that is handed to a program can be seen by others
    cookie: str
    path: str  # below which everything lies: a third secret, which only pages of the board know


def draw() -> Secrets:
    """From the system's generator."""
    token, ticket, cookie = (secrets.token_urlsafe(_BYTES) for _ in range(3))
    return Secrets(token, ticket, cookie, secrets.token_urlsafe(12))


def hosts(port: int) -> frozenset[str]:
    """The values of a Host header that a browser on this machine sends."""
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})


def same(given: str, secret: str) -> bool:
    """Whether they are the same, in a time that does not say where they differ."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def set_cookie(drawn: Secrets) -> str:
    """The header with which a browser is given the cookie."""
    return f"{_COOKIE}={drawn.cookie}; Path=/{drawn.path}/; HttpOnly; SameSite=Strict"


def has_cookie(drawn: Secrets, header: str) -> bool:
    """Whether a Cookie header holds it. Cookies of other servers on this machine stand beside it."""
    found = (each.strip().partition("=") for each in header.split(";"))
    return any(same(value, drawn.cookie) for name, _, value in found if name == _COOKIE)
