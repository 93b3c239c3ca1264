"""The first message of a TLS connection, read without I/O: does the client offer TLS 1.3?

gRPC's server takes TLS 1.2 too, and Python cannot tell it otherwise. It takes the newest version that is offered: a
client that offers 1.3 gets it, and nobody on the way can change that unnoticed (RFC 8446, 4.1.3 and 4.4.4). So the
front refuses everybody else.
"""

from __future__ import annotations

from collections.abc import Iterator

HANDSHAKE = 0x16  # the first byte of a TLS connection
PROTOCOL_VERSION = bytes([0x15, 3, 3, 0, 2, 2, 70])  # the alert for a client that is refused (RFC 8446, 6.2)
_HEADER, _LARGEST = 5, 1 << 14  # bytes of a record's header, and of its content
_CLIENT_HELLO, _SUPPORTED_VERSIONS = 1, 43
_TLS_1_3 = b"\x03\x04"


def offers_tls13(data: bytes | memoryview) -> bool | None:
    """Whether these bytes begin with a ClientHello that offers TLS 1.3; None until enough of them are there.

    Guarantee: True only for a complete ClientHello, in one record, whose extension `supported_versions` names TLS 1.3.
        After `_HEADER + _LARGEST` bytes the answer is not None.
    Source: RFC 8446, 4.1.2, 4.2.1 and 5.1.
    """
    if data[:1] and data[0] != HANDSHAKE:
        return False
    if len(data) < _HEADER:
        return None
    length = int.from_bytes(data[3:5], "big")
    if length > _LARGEST:
        return False
    if len(data) < _HEADER + length:
        return None
    try:
        return _TLS_1_3 in list(_versions(bytes(data[_HEADER : _HEADER + length])))
    except ValueError:
        return False


def _versions(record: bytes) -> Iterator[bytes]:
    hello, _ = _vector(record[1:], 3)
    if record[:1] != bytes([_CLIENT_HELLO]) or len(hello) < 34:
        raise ValueError
    rest = hello[34:]  # after the old version and the random bytes
    for width in (1, 2, 1):  # session, cipher suites, compression
        _, rest = _vector(rest, width)
    extensions, rest = _vector(rest, 2)
    if rest:
        raise ValueError
    while extensions:
        kind = int.from_bytes(extensions[:2], "big")
        content, extensions = _vector(extensions[2:], 2)
        if kind == _SUPPORTED_VERSIONS:
            versions, rest = _vector(content, 1)
            if rest or len(versions) % 2:
                raise ValueError
            yield from (versions[at : at + 2] for at in range(0, len(versions), 2))


def _vector(data: bytes, width: int) -> tuple[bytes, bytes]:
    """What a length of `width` bytes announces, and what comes after it."""
    end = width + int.from_bytes(data[:width], "big")
    if len(data) < max(width, end):
        raise ValueError
    return data[width:end], data[end:]
