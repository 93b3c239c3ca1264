"""The authority's enrolment server: it gives the holder of a token a certificate, and does nothing else.

    EnrolmentServer(folder, say).run(address, ready, stop)

It is a process of its own, started by `tacit keys serve`, and never part of a coordinator. Its TLS key is made when it
starts and is nowhere but in its memory.

What strangers can take of it is bounded: connections (in all, and of one address), seconds for a whole conversation,
bytes of a request, and wrong tokens of one address in a minute. The log names parties, addresses and reasons, never a
secret, and a flood of refusals does not become a flood of lines.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from socket import (
    AF_INET6,
    AI_PASSIVE,
    IPPROTO_IPV6,
    IPV6_V6ONLY,
    SO_REUSEADDR,
    SOCK_STREAM,
    SOL_SOCKET,
    getaddrinfo,
    socket,
)

from cryptography.hazmat.primitives.asymmetric import ec

from tacit.channel import sentence
from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.certificates import key_pem
from tacit.net.enrolment import LARGEST_REQUEST, LENGTH_BYTES, Declined, Enrol, Enrolled, Offer
from tacit.net.enrolment_tokens import Spent, redeem, remove_expired
from tacit.net.identity import read_request
from tacit.net.neighbourhood import neighbourhood
from tacit.net.tls import readable
from tacit.wire import Message, decode, encode

_CONNECTIONS, _OF_ONE = 128, 16
_SECONDS = 10.0  # for the whole conversation
_WRONG, _MINUTE = 10, 60.0  # wrong tokens of one address in so many seconds
_ADDRESSES = 4096  # that are remembered for that
_PAUSE = 10.0  # seconds between two lines about refusals
_BACKLOG = 1024


class EnrolmentServer:
    """Serves one authority. Everything runs in one event loop, but what is signed and stored, in one thread."""

    def __init__(self, folder: AuthorityFolder, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        self._offer = encode(Offer(folder.certificate_pem))
        self._context = _context(folder)
        self._thread = ThreadPoolExecutor(1, "authority")
        self._open: Counter[str] = Counter()  # connections by address
        self._wrong: dict[str, deque[float]] = {}  # when wrong tokens came, by address
        self._tasks: dict[asyncio.Task[None], str] = {}  # conversations with their addresses, the oldest first
        self._refused = 0
        self._last = ""  # why the last one was refused
        self._said_at: float | None = None

    async def run(self, address: str, ready: Callable[[int], None], stop: asyncio.Event) -> None:
        """Serve until `stop` is set. `ready` is told the port. ConfigError: the address is taken, or none."""
        listener = _listening(address)
        remove_expired(self._folder)
        accepting = asyncio.create_task(self._accept(listener))
        telling = asyncio.create_task(self._tell_refusals())
        try:
            ready(listener.getsockname()[1])
            await stop.wait()
        finally:
            accepting.cancel()
            telling.cancel()
            listener.close()
            if self._tasks:  # what was signed should be heard of
                await asyncio.wait(self._tasks, timeout=_SECONDS)
            self._thread.shutdown()

    async def _accept(self, listener: socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(listener)
            except OSError:  # it has gone already, or there are no descriptors
                await asyncio.sleep(0.05)
                continue
            where = neighbourhood(address[0])
            why = self._unwelcome(where, loop.time())
            if why is not None:
                connection.close()
                self._refuse(where, why)
                continue
            self._open[where] += 1
            task = asyncio.create_task(self._converse(connection, where))
            self._tasks[task] = where
            task.add_done_callback(self._tasks.pop)

    def _unwelcome(self, where: str, now: float) -> str | None:
        wrong = self._wrong.get(where, deque())
        while wrong and now - wrong[0] > _MINUTE:
            wrong.popleft()
        if len(wrong) >= _WRONG:
            return "too many wrong tokens"
        if not wrong:
            self._wrong.pop(where, None)
        if self._open[where] >= _OF_ONE:
            return "too many connections of one address"
        if sum(not task.cancelling() for task in self._tasks) >= _CONNECTIONS and not self._displaced():
            return "too many connections"
        return None

    def _displaced(self) -> bool:
        """End a connection for a new one: of those whose address has most, the oldest. So a flood displaces itself."""
        open_now = {task: where for task, where in self._tasks.items() if not task.cancelling()}
        count = Counter(open_now.values())
        most = max(count.values(), default=0)
        task = next((task for task, where in open_now.items() if count[where] == most), None)
        if task is not None:
            task.cancel()
            self._refuse(open_now[task], "too many connections, of which it was the oldest")
        return task is not None

    async def _converse(self, connection: socket, where: str) -> None:
        """One connection, from its handshake to its end."""
        try:
            async with asyncio.timeout(_SECONDS):
                await self._secured(connection, where)
        except TimeoutError:
            self._refuse(where, f"not done in {_SECONDS:g} s")
        except (OSError, asyncio.IncompleteReadError):
            self._refuse(where, "no TLS 1.3, or the connection ended")
        except PeerError as error:
            self._refuse(where, str(error))
        finally:
            connection.close()
            self._open[where] -= 1
            if not self._open[where]:
                del self._open[where]

    async def _secured(self, connection: socket, where: str) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LARGEST_REQUEST)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=_SECONDS, ssl_shutdown_timeout=1.0
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await _send(writer, self._offer)
            length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
            if length > LARGEST_REQUEST:
                raise PeerError(f"a request of {length} bytes, at most {LARGEST_REQUEST} are read")
            asked = decode(await reader.readexactly(length), Enrol, LARGEST_REQUEST)
            await _send(writer, encode(await self._answer(asked, where)))
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            transport.abort()

    async def _answer(self, asked: Enrol, where: str) -> Message:
        """What a token's holder gets. Signing is not interrupted where the connection breaks: it can be repeated."""
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(self._thread, self._redeem, asked)
        try:
            certificate, revoked, words = await asyncio.shield(working)
        except Spent as error:  # the holder of the token may know why
            self._refuse(where, str(error))
            return Declined(sentence(str(error))[:300])
        except PeerError as error:
            self._count_wrong(where, loop.time())
            self._refuse(where, "a wrong token")
            return Declined(str(error))
        except Exception as error:  # the text may hold what is nobody's business
            self._say(f"{where}: the authority's own fault ({type(error).__name__}): {_own_fault(error)}")
            return Declined("the authority could not do it: its log says why. Then repeat the command")
        self._say(f"{where}: {words}")
        return Enrolled(certificate, revoked)

    def _count_wrong(self, where: str, now: float) -> None:
        if where not in self._wrong and len(self._wrong) >= _ADDRESSES:
            over = [each for each, times in self._wrong.items() if now - times[-1] > _MINUTE]
            for each in over or [next(iter(self._wrong))]:
                del self._wrong[each]
        self._wrong.setdefault(where, deque(maxlen=_WRONG)).append(now)

    def _redeem(self, asked: Enrol) -> tuple[bytes, bytes, str]:
        certificate = redeem(self._folder, asked.token, asked.secret, asked.request)
        found = read_request(asked.request)
        return certificate, self._folder.revoked().data, f"{found.name} has a certificate for keys {found.fingerprint}"

    def _refuse(self, where: str, why: str) -> None:
        self._refused += 1
        self._last = f"{where}: {sentence(why)}"

    async def _tell_refusals(self) -> None:
        """The first at once, others together."""
        loop, said = asyncio.get_running_loop(), 0
        while True:
            due = self._said_at is None or loop.time() - self._said_at >= _PAUSE
            if self._refused > said and due:
                count, said, self._said_at = self._refused - said, self._refused, loop.time()
                self._say(self._last if count == 1 else f"{count} connections were refused, the last one: {self._last}")
            await asyncio.sleep(0.1)


def _own_fault(error: Exception) -> str:
    return sentence(str(error)) if isinstance(error, ConfigError) else "see its files"


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    await writer.drain()


def _listening(address: str) -> socket:
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, where = getaddrinfo(
            host.strip("[]") or None, int(port), type=SOCK_STREAM, flags=AI_PASSIVE
        )[0]
        listener = socket(family, kind, protocol)
    except (OSError, ValueError):
        raise ConfigError(f"{address}: this is not an address to listen on: give HOST:PORT") from None
    try:
        listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        if family == AF_INET6:
            listener.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, int(host != "[::]"))
        listener.bind(where)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{address}: this address cannot be listened on ({error.strerror}): choose another, or stop its process"
        ) from None
    listener.setblocking(False)
    return listener


def _context(folder: AuthorityFolder) -> ssl.SSLContext:
    """TLS 1.3 with a certificate of the authority for its enrolment server, and keys that are made now."""
    key = ec.generate_private_key(ec.SECP256R1())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    certificate_pem = folder.authority.enrolment_certificate(key.public_key())
    with readable(certificate_pem) as certificate, readable(key_pem(key)) as private:
        context.load_cert_chain(certificate, private)
    return context
