"""What counts as one address, where connections of one address are limited."""

from __future__ import annotations

import ipaddress


def neighbourhood(host: str) -> str:
    """What counts as one address: of IPv6 a network of /64, which is what a single machine gets."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(address) >> 64 << 64)}/64"
