"""The door of the party that listens: who may wait before it, and for how long.

gRPC takes every connection that comes. The front stands before it: it accepts, counts, and passes bytes to gRPC, which
listens on a Unix socket in a folder of this user's own. TLS is between the peer and gRPC: of it the front reads only
whether the peer offers TLS 1.3 (see `hello`), which is required.

    peer ── TCP ── front ── Unix socket ── gRPC

A connection is unauthenticated until gRPC's side calls `admitted`, and again after `left`. Until then it may have to go
(see `guests`), after `handshake` seconds in any case. One that says nothing costs one descriptor and never meets gRPC.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

from tacit.net.grpc.guests import Bounds, Guest, Guests, Way
from tacit.net.grpc.hello import HANDSHAKE, PROTOCOL_VERSION, offers_tls13
from tacit.net.grpc.watch import Reason, Watch
from tacit.net.neighbourhood import neighbourhood

_FOLDER = "tacit-port-"
_BUFFER = 1 << 20
_BACKLOG = 4096
_ACCEPTED = 32  # in one go: those who are there already must not wait
_PAUSE = 0.2  # seconds without accepting, while there are no descriptors
_SWEEP = 0.25  # seconds between two looks at who waits for too long
_CLOSING = 2.0  # seconds for the other end to close too
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Front:
    """Listens for gRPC. Everything runs in one event loop.

    Args:
        secure: whether peers must speak TLS 1.3; their first message says so.
    """

    def __init__(self, secure: bool, watch: Watch) -> None:
        self._secure = secure
        self._watch = watch
        self._folder = ""
        self._buffer = memoryview(b"")
        self._guests = Guests(Bounds(0, 0, 0.0))
        self._bounds = Bounds(0, 0, 0.0)
        self._listeners: list[socket.socket] = []
        self._numbers = 0
        self._timers: set[asyncio.TimerHandle] = set()
        self._closed = False

    @property
    def target(self) -> str:
        """Where gRPC listens."""
        return f"{self._folder}/grpc"

    def listen(self, bind: str) -> int:
        """Take an address; nobody is accepted yet. Returns the port; OSError if another has it."""
        self._folder, self._buffer = _own_folder(), memoryview(bytearray(_BUFFER))
        host, _, wanted = bind.rpartition(":")
        host, port = host.strip("[]"), int(wanted)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            self._listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
            listener.bind((address[0], port, *address[2:]))
            port = listener.getsockname()[1]
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        return port

    def open(self, bounds: Bounds) -> None:
        """Accept from now on: gRPC listens."""
        self._bounds, self._guests = bounds, Guests(bounds)
        for listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)
        self._later(_SWEEP, self._sweep)

    async def close(self) -> None:
        """End everything; what gRPC said last is delivered if the network takes it at once."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        self._listeners = []
        for _ in range(20):
            if not any(guest.down is not None and not guest.down.ended for guest in self._guests.all.values()):
                break
            await asyncio.sleep(0.01)
        for timer in self._timers:
            timer.cancel()
        for guest in list(self._guests.all.values()):
            self._end(guest)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def admitted(self, peer: str) -> None:
        """A party speaks on this connection, whose name is that of gRPC's `context.peer()`."""
        guest = self._of(peer)
        if guest is not None:
            guest.streams += 1
            guest.known = True
            self._guests.know(guest)
            self._count()

    def refused(self, peer: str) -> None:
        """A party spoke on this connection and was refused: its end is no failed handshake."""
        guest = self._of(peer)
        if guest is not None:
            guest.known = True

    def left(self, peer: str) -> None:
        """It does so no more. What opens connections and leaves them has them ended like those of strangers."""
        guest = self._of(peer)
        if guest is not None and guest.streams:
            guest.streams -= 1
            if not guest.streams:
                guest.deadline = asyncio.get_running_loop().time() + self._bounds.handshake
                self._guests.estrange(guest)
                self._count()

    def _of(self, peer: str) -> Guest | None:
        number = peer.rpartition("/")[2]
        return self._guests.all.get(int(number)) if number.isdecimal() else None

    # --- coming

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED):
            try:
                near, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._exhausted(listener)
                return  # any other error is of a connection that is gone already
            self._take(near, address[0])

    def _take(self, near: socket.socket, host: str) -> None:
        near.setblocking(False)
        with suppress(OSError):
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._numbers += 1
        loop = asyncio.get_running_loop()
        guest = Guest(self._numbers, near, neighbourhood(host), loop.time() + self._bounds.handshake)
        gone = self._guests.add(guest)
        loop.add_reader(near, self._first, guest)
        if gone is not None:
            self._refuse(*gone)
        self._count()

    def _exhausted(self, listener: socket.socket) -> None:
        """No descriptors are left: the silent ones give theirs back, and nobody is accepted for a moment."""
        asyncio.get_running_loop().remove_reader(listener)
        oldest = sorted(self._guests.strangers(), key=lambda guest: guest.up is not None)[:_ACCEPTED]
        for guest in oldest:
            self._refuse(guest, "descriptors")
        if not oldest:
            self._watch.refuse("descriptors", "an unknown address")
        self._later(_PAUSE, self._again, listener)

    def _again(self, listener: socket.socket) -> None:
        if not self._closed:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _first(self, guest: Guest) -> None:
        """Its first bytes, and with TLS its whole first message: only then there is a way to gRPC."""
        kept = len(guest.hello)
        try:
            count = guest.near.recv_into(self._buffer[kept:])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        if not count:
            self._end(guest)
            return
        self._buffer[:kept] = guest.hello
        count += kept
        if self._secure:
            offers = offers_tls13(self._buffer[:count])
            if offers is None:
                guest.hello = bytes(self._buffer[:count])
                return
            if not offers:
                self._refuse_version(guest)
                return
        guest.hello = b""
        try:
            far = self._reach(guest.number)
        except OSError as error:
            self._refuse(guest, "descriptors" if error.errno in _EXHAUSTED else "busy")
            return
        guest.up, guest.down = Way(guest.near, far), Way(far, guest.near)
        loop = asyncio.get_running_loop()
        loop.remove_reader(guest.near)
        loop.add_reader(guest.near, self._carry, guest, guest.up)
        loop.add_reader(far, self._carry, guest, guest.down)
        self._pass(guest, guest.up, count)

    def _reach(self, number: int) -> socket.socket:
        """A connection to gRPC, under a name by which it is known there."""
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"{self._folder}/{number}"
        try:
            far.setblocking(False)
            far.bind(name)
            far.connect(self.target)
        except OSError:
            far.close()
            raise
        finally:
            with suppress(OSError):
                os.unlink(name)
        return far

    # --- bytes

    def _carry(self, guest: Guest, way: Way) -> None:
        try:
            count = way.source.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._end(guest)
            return
        if count:
            self._pass(guest, way, count)
        else:
            asyncio.get_running_loop().remove_reader(way.source)
            way.ended = True
            self._finish(guest, way)

    def _pass(self, guest: Guest, way: Way, count: int) -> None:
        """Write what is in the buffer. What the sink does not take is kept, and the source waits."""
        sent = count if way.deaf else self._send(way, self._buffer[:count])
        if sent < count:
            way.rest = memoryview(bytes(self._buffer[sent:count]))
            loop = asyncio.get_running_loop()
            loop.remove_reader(way.source)
            loop.add_writer(way.sink, self._drain, guest, way)

    def _drain(self, guest: Guest, way: Way) -> None:
        way.rest = way.rest[self._send(way, way.rest) :]
        if not way.rest:
            loop = asyncio.get_running_loop()
            loop.remove_writer(way.sink)
            loop.add_reader(way.source, self._carry, guest, way)

    def _send(self, way: Way, data: memoryview) -> int:
        try:
            return way.sink.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:  # the sink is closed, and may still have something to say
            way.deaf = True
            return len(data)

    # --- going

    def _finish(self, guest: Guest, way: Way) -> None:
        """One end has said all: the other one is told, and may end too."""
        with suppress(OSError):
            way.sink.shutdown(socket.SHUT_WR)
        if guest.up is not None and guest.down is not None and guest.up.ended and guest.down.ended:
            self._end(guest)
        else:
            self._later(_CLOSING, self._end, guest)

    def _refuse(self, guest: Guest, reason: Reason) -> None:
        """Cut a connection, so that the other end sees that it was cut, and not that it was judged."""
        with suppress(OSError):
            guest.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._close(guest):
            self._watch.refuse(reason, guest.address)

    def _refuse_version(self, guest: Guest) -> None:
        if self._buffer[0] != HANDSHAKE:
            self._refuse(guest, "no TLS")
            return
        with suppress(OSError):
            guest.near.send(PROTOCOL_VERSION)
        if self._close(guest):
            self._watch.refuse("no TLS 1.3", guest.address)

    def _end(self, guest: Guest) -> None:
        if self._close(guest) and guest.up is not None and not guest.known and not self._closed:
            self._watch.handshake_failed(guest.address)

    def _close(self, guest: Guest) -> bool:
        if not self._guests.remove(guest):
            return False
        loop = asyncio.get_running_loop()
        for end in (guest.near, guest.up.sink if guest.up is not None else None):
            if end is not None:
                loop.remove_reader(end)
                loop.remove_writer(end)
                end.close()
        self._count()
        return True

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for guest in [guest for guest in self._guests.strangers() if guest.deadline <= now]:
            self._refuse(guest, "time")
        self._later(_SWEEP, self._sweep)

    def _count(self) -> None:
        self._watch.opened(len(self._guests.all), self._guests.unauthenticated)

    def _later(self, seconds: float, what: object, *arguments: object) -> None:
        def now() -> None:
            self._timers.discard(timer)
            what(*arguments)  # type: ignore[operator]

        timer = asyncio.get_running_loop().call_later(seconds, now)
        self._timers.add(timer)


def _own_folder() -> str:
    """A folder that only this user can enter, with a name that is short enough for a Unix socket."""
    above = tempfile.gettempdir() if len(os.fsencode(tempfile.gettempdir())) < 60 else "/tmp"  # noqa: S108
    _remove_dead(above)
    return tempfile.mkdtemp(prefix=_FOLDER, dir=above)


def _remove_dead(above: str) -> None:
    """Remove the folders of this user's parties that were killed: nobody listens in them."""
    for path in Path(above).glob(f"{_FOLDER}*/grpc"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            if path.parent.stat().st_uid == os.getuid() and probe.connect_ex(str(path)) == errno.ECONNREFUSED:
                shutil.rmtree(path.parent, ignore_errors=True)
