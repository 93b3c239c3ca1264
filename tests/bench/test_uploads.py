"""What the benchmark of uploads measures with: servers with and without a front, and parties that trickle."""

import asyncio

import pytest

from bench import uploads
from bench.network import files
from tacit.net.grpc.server import Server
from tacit.net.identity import Authority, Credentials
from tacit.net.star import client_name

SIZE = 3_000_000


@pytest.mark.parametrize("kind", [Server, uploads._Direct])
def test_an_upload_is_confirmed_beside_one_that_trickles(kind):
    authority = Authority.create()
    own = [Credentials.of(*files(authority, client_name(identity))) for identity in range(2)]

    async def scenario(address):
        begun = asyncio.Event()
        slow = asyncio.create_task(uploads.trickle(address, 1, SIZE, SIZE // 3, own[1], begun))
        await begun.wait()
        uploader = uploads.Uploader(address, 0, SIZE, own[0])
        await uploader.upload(bytes(SIZE))
        await uploader.upload(bytes(SIZE))
        await uploader.close()
        still = not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        return still

    with uploads.served(kind, SIZE, authority, 2) as address:
        assert asyncio.run(scenario(address))
