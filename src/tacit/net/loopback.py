"""Whether an address is on this machine: the only place where parties may talk without certificates."""

from __future__ import annotations

import ipaddress
import re

from tacit.net.identity import Credentials

_ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<four>[^\[\]:]*)):[0-9]{1,5}")


def on_loopback(address: str) -> bool:
    """Whether HOST:PORT is this machine in every reading: `localhost`, 127.0.0.0/8 or [::1].

    Guarantee: no other name is, whatever it looks like; nor is an IPv6 address with a zone or an IPv4 address in it.
    Assumes: the machine's own tables take `localhost` for itself (RFC 6761).
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return False
    six, four = found["six"], found["four"]
    if four == "localhost":
        return True
    try:
        if six is None:
            return ipaddress.IPv4Address(four).is_loopback
        return "%" not in six and int(ipaddress.IPv6Address(six)) == 1
    except ValueError:
        return False


def check_guarded(address: str, credentials: Credentials | None) -> None:
    """ValueError where parties without certificates would leave this machine."""
    if credentials is None and not on_loopback(address):
        raise ValueError(f"{address}: without certificates parties talk on this machine only: `tacit keys` makes them")
