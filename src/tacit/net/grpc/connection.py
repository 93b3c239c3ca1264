"""The side that connects: a stream to the server that comes back by itself.

A connection that breaks is made again, after a pause that grows; the conversation resumes where it broke. If the server
is another process by then, it begins anew. What the server refuses, and a certificate that is not accepted, ends it.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import grpc
import grpc.aio

from tacit.channel import sentence
from tacit.errors import PeerError
from tacit.net.grpc.credentials import ONLY_TLS13, channel_credentials, channel_options
from tacit.net.grpc.server import METHOD, OPTIONS
from tacit.net.handshake import (
    NONCE_BYTES,
    SILENT,
    Proven,
    Refused,
    Welcome,
    as_of_0_2,
    check_proven,
    check_version,
    differing_version,
    speaks_0_2,
    too_old,
    unproven,
)
from tacit.net.identity import Identity
from tacit.net.link import PIECE_BYTES, Link
from tacit.net.loopback import check_guarded
from tacit.net.tls import diagnose
from tacit.net.transport import Conversation, Guest
from tacit.net.vitals import Traffic
from tacit.version import __version__
from tacit.wire import AnyFrame, decode, encode

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds
_WELCOME_SECONDS = 20.0
_REJECTIONS = 3
_ENDED = "the connection ended"
_OLD_TLS = "gRPC was imported before tacit.net.grpc: a server that offers only TLS 1.2 is not refused: import it first"
_FINAL = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT}


class _Rejected(Exception):
    """The server is not one to talk to. It may be replaced by one that is."""


class Connection:
    """A connection of `Transport`, over gRPC. Credentials are read again for each stream, if they know their files."""

    def __init__(self, told: Guest, address: str, server: str, about: Conversation) -> None:
        check_guarded(address, about.credentials)
        self._told = told
        self._address = address
        self._server = server
        self._about = about
        self._session = os.urandom(16)
        self._epoch = b""
        self._link = Link(about.limit)
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()
        self._leaving = False
        self._stream: Any = None  # that is open
        self._met = False  # whether there was a welcome yet
        self._reached = -1  # the link's progress when this connection got as far as a welcome
        self._older = False  # whether the server said that it is of 0.2: the next hello is one of that release
        self.traffic = Traffic()
        self._rejected = 0  # handshakes in a row that failed at a certificate
        self._versions: set[str] = set()  # other releases that the server ran
        self._judged = False  # whether the server's certificate was accepted, in this attempt
        self._there: Identity | None = None  # as the server proved
        self._attempt: asyncio.Task[str] | None = None
        self._revoked = ""  # why the attempt was ended from here

    @property
    def pending(self) -> int:
        """Bytes that the server has not confirmed."""
        return self._link.pending

    def send(self, frame: AnyFrame) -> None:
        self._link.send(frame)
        self._wake.set()

    async def run(self) -> None:
        """Converse until `close`. Raises PeerError where the other side refuses, or is not who it should be."""
        pause = _FIRST_PAUSE
        if self._about.credentials is not None and not ONLY_TLS13:
            self._about.say(_OLD_TLS)
        while not self._closing.is_set():
            self._reached = -1
            try:
                reason = await self._attempted()
            except _Rejected as error:
                reason = str(error)
                self._reject(reason)
            except TimeoutError:
                reason = f"{self._server} took the connection and did not answer for {_WELCOME_SECONDS:.0f} s"
            except grpc.aio.AioRpcError as error:
                if error.code() in _FINAL:
                    raise PeerError(f"{self._server} refused: {sentence(error.details() or '')}") from None
                reason = await self._why(error)
            if self._leaving:
                return
            pause = _FIRST_PAUSE if 0 <= self._reached < self._link.progress else min(_LONGEST_PAUSE, 2 * pause)
            await self._told.waiting(reason)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311

    def check_server(self) -> None:
        """End the connection if the server's certificate is revoked by now. It is made again, and the server judged.

        A server that proved nothing may have a certificate that is revoked.
        """
        credentials = self._about.credentials
        if credentials is None or self._attempt is None or not self._judged:
            return
        if self._there is None:
            reason = unproven(self._server, credentials)
        else:
            reason = credentials.revocations.reason_against(self._there)
        if reason is not None:
            self._revoked = reason
            self._attempt.cancel()

    async def _attempted(self) -> str:
        """One connection, that `check_server` can end; why it ended."""
        self._judged, self._there, self._revoked = False, None, ""
        self._attempt = asyncio.create_task(self._once())
        try:
            return await self._attempt
        except asyncio.CancelledError:
            if not self._revoked or not self._attempt.done():
                raise
            raise _Rejected(self._revoked) from None
        finally:
            self._attempt.cancel()

    def _reject(self, reason: str) -> None:
        """A server whose certificate is not accepted several times will not be later, unless it was met before."""
        self._rejected += 1
        if self._rejected >= _REJECTIONS and not self._met:  # once met, a stranger there may pass
            raise PeerError(reason)

    async def close(self, seconds: float = 5.0) -> None:
        """Wait until both sides have confirmed everything, not longer than `seconds`, and end."""
        self._leaving = True  # no new connection is made: the server has ended this one once it has all of it
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        while not self._link.settled and clock() < deadline:
            await asyncio.sleep(0.02)
        self._closing.set()
        self._wake.set()
        while self._stream is not None and clock() < deadline:  # until the server has read the last of it
            await asyncio.sleep(0.02)

    async def _why(self, error: grpc.aio.AioRpcError) -> str:
        """Why there is no connection. A certificate that is not accepted several times will not be later.

        Once may be a network's fault: gRPC's servers refuse one by closing the connection without a word.
        """
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            return f"{self._server} refused: {sentence(error.details() or '')}"
        if self._about.credentials is None or error.code() is not grpc.StatusCode.UNAVAILABLE:
            return f"{self._address} does not answer"
        host, _, port = self._address.rpartition(":")
        credentials = self._about.credentials.renewed(self._about.say)
        found = await asyncio.to_thread(diagnose, host.strip("[]"), int(port), credentials, self._server)
        wrong = found is not None and ("certificate" in found or " is there, not " in found)
        if found is not None and "expired" in found and credentials.source is not None:
            return f"{found}; a renewed certificate is used as soon as it is there"
        if wrong and found is not None:
            self._reject(found)
        else:
            self._rejected = 0
        return found or f"{self._address} does not answer"

    def _channel(self) -> grpc.aio.Channel:
        if self._about.credentials is None:
            # gRPC would go through the proxy that the environment names, in the clear, even to this machine.
            return grpc.aio.insecure_channel(self._address, options=[*OPTIONS, ("grpc.enable_http_proxy", 0)])
        options = [*OPTIONS, *channel_options(self._server)]
        credentials = channel_credentials(self._about.credentials.renewed(self._about.say))
        return grpc.aio.secure_channel(self._address, credentials, options=options)

    async def _once(self) -> str:
        """One connection, from the handshake to its end; why it ended."""
        async with self._channel() as channel:
            stream = channel.stream_stream(METHOD)()
            older, self._older = self._older, False  # each time anew: another release may run there by now
            proves = self._about.credentials is not None and not older
            nonce = os.urandom(NONCE_BYTES) if proves else b""
            hello = self._about.hello(self._session, self._epoch, self._link.received, nonce)
            await stream.write(as_of_0_2(hello) if older else encode(hello))
            async with asyncio.timeout(_WELCOME_SECONDS):  # `wait_for` of Python 3.11 may swallow a cancellation
                welcome = await self._answer(stream, nonce)
            if welcome is None:
                await stream.code()
                return _ENDED
            if isinstance(welcome, Refused):
                if older or not speaks_0_2(welcome):
                    raise PeerError(f"{self._server} refused: {sentence(welcome.reason)}")
                if (reason := too_old(self._about.shared)) is not None:
                    raise PeerError(f"{self._server} runs Tacit {SILENT}: {reason}")
                self._older = True
                return f"{self._server} runs Tacit {SILENT}: the hello is said again as that release says it"
            await self._welcomed(welcome)
            self._stream = stream
            writer = asyncio.create_task(self._write(stream))
            try:
                while True:
                    piece = await stream.read()
                    if piece is grpc.aio.EOF:
                        return _ENDED
                    self.traffic += Traffic(received=len(piece))
                    for frame in self._link.receive(piece):
                        self._wake.set()
                        await self._told.arrived(frame)
                        del frame  # or it would be in memory until the next one is whole
            finally:
                self._stream = None
                writer.cancel()
                stream.cancel()

    async def _answer(self, stream: Any, nonce: bytes) -> Welcome | Refused | None:
        """What the server says first, once it is known whose certificate it has; None if it ends instead."""
        proof: Proven | None = None
        while (piece := await stream.read()) is not grpc.aio.EOF:
            answer: Any = decode(piece, Proven | Welcome | Refused, PIECE_BYTES)  # type: ignore[arg-type]
            if isinstance(answer, Refused):
                return answer
            if isinstance(answer, Welcome):
                self._judge(proof, nonce)
                return answer
            proof = answer
        return None

    def _judge(self, proof: Proven | None, nonce: bytes) -> None:
        credentials = self._about.credentials
        if credentials is None:
            return
        try:
            self._there = check_proven(proof, credentials, self._server, self._about.party, nonce)
        except PeerError as error:
            raise _Rejected(str(error)) from None
        self._judged = True

    async def _welcomed(self, welcome: Welcome) -> None:
        check_version(self._server, welcome.version)
        self._say_version(welcome.version)
        self._epoch, self._met, self._rejected = welcome.epoch, True, 0
        if welcome.resumed:
            self._link.reconnected(welcome.received)
        else:
            self._link = Link(self._about.limit)
        self._reached = self._link.progress
        await self._told.connected(welcome.resumed)

    def _say_version(self, said: str) -> None:
        """Say that the server runs another release, once of each."""
        version = differing_version(said)
        if version is not None and version not in self._versions:
            self._versions.add(version)
            self._about.say(f"{self._server} runs Tacit {version}, this side {__version__}: what both know is used")

    async def _write(self, stream: Any) -> None:
        while True:
            piece = self._link.next()
            if piece is not None:
                self.traffic += Traffic(sent=len(piece))
                await stream.write(piece)
            elif self._closing.is_set():
                await stream.done_writing()
                return
            else:
                self._wake.clear()
                await self._wake.wait()
