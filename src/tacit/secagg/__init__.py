"""Secure aggregation: the exact sum of private vectors, and nothing else. See README.md in this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door

if TYPE_CHECKING:
    from tacit.secagg import messages
    from tacit.secagg.client import Client
    from tacit.secagg.encode import Encoding
    from tacit.secagg.quantised import QuantisedEncoding
    from tacit.secagg.server import Aggregate, Outgoing, Server, State
    from tacit.secagg.session import Context
    from tacit.secagg.settings import Settings
    from tacit.secagg.skellam import SkellamEncoding

__all__ = [
    "Aggregate",
    "Client",
    "Context",
    "Encoding",
    "Outgoing",
    "QuantisedEncoding",
    "Server",
    "Settings",
    "SkellamEncoding",
    "State",
    "messages",
]
__getattr__, __dir__ = door(
    __name__,
    __all__,
    {
        "tacit.secagg.client": "Client",
        "tacit.secagg.encode": "Encoding",
        "tacit.secagg.quantised": "QuantisedEncoding",
        "tacit.secagg.server": "Aggregate Outgoing Server State",
        "tacit.secagg.session": "Context",
        "tacit.secagg.settings": "Settings",
        "tacit.secagg.skellam": "SkellamEncoding",
    },
)
