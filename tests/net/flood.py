"""A process that floods a port until its stdin is closed: `python -m tests.net.flood PORT ADDRESS COUNT FOLDER`.

So many connections each: silent ones, and such that send half a TLS hello. Some of each: such that finish TLS without a
certificate, with one of an unknown authority, and with one of the right authority for a name that is no party's; these
never say hello. What is cut comes again. It prints "flooding" when all of this has begun.
"""

from __future__ import annotations

import asyncio
import random
import resource
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PAUSE = 8.0  # seconds until a connection that was cut comes again, at most
_SOME = 20


def hello() -> bytes:
    """The first message of a TLS handshake."""
    out = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    handshake = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="coordinator.tacit.invalid")
    with suppress(ssl.SSLWantReadError):
        handshake.do_handshake()
    return out.read()


def stranger(certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


async def flood(port: int, address: str, count: int, folder: Path) -> None:
    begun: asyncio.Queue[None] = asyncio.Queue()
    half = hello()[:100]

    async def again(said: bytes, context: Callable[[], ssl.SSLContext] | None) -> None:
        first = True
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", port, local_addr=(address, 0), ssl=context() if context else None
                )
                writer.write(said)
                if first:
                    begun.put_nowait(None)
                    first = False
                while await reader.read(1 << 16):
                    pass
            except OSError:
                if first:
                    begun.put_nowait(None)
                    first = False
            else:
                writer.transport.abort()
            await asyncio.sleep(random.uniform(0, _PAUSE))

    contexts = [
        stranger(None, None),
        stranger(folder / "unknown.pem", folder / "unknown.key"),
        stranger(folder / "visitor.pem", folder / "visitor.key"),
    ]
    tasks = [asyncio.create_task(again(said, None)) for said in (b"", half) for _ in range(count)]
    tasks += [asyncio.create_task(again(b"", lambda c=context: c)) for context in contexts for _ in range(_SOME)]  # type: ignore[misc]
    for _ in tasks:
        await begun.get()
    print("flooding", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(flood(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
