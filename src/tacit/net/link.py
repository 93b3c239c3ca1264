"""A conversation that outlives its connections, without I/O: frames arrive once, in order, or not at all.

A `Link` cuts frames into pieces of at most `PIECE_BYTES`, numbers them, keeps what the other side has not confirmed,
and puts together what comes in. When a connection breaks, both ends keep their link; after the next handshake each
tells how many frames it has, and the other sends again from there.

    link.send(frame)            queue a frame
    link.next()                 the next piece to write, or None
    link.receive(piece)         the frames that are now whole
    link.disconnected()         what came of a frame that is not whole is dropped
    link.reconnected(count)     a new connection: the other side has `count` frames

A piece is a byte that says what it is, then 8-byte numbers, then data:

    b"A" count                  so many frames have arrived
    b"F" number total data      the first piece of a frame of `total` bytes
    b"C" number data            a further piece of it
"""

from __future__ import annotations

from collections import deque

from tacit.errors import PeerError
from tacit.wire import AnyFrame, Parted, bulk_at

PIECE_BYTES = 1 << 18
OVERHEAD_BYTES = 17
_ALIGNED = 16  # bytes, as memory is that is allocated
_ACKNOWLEDGE, _FIRST, _FURTHER = b"A"[0], b"F"[0], b"C"[0]


class Link:
    """One end of a conversation.

    Args:
        limit: no frame that comes in may be larger, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.received = 0  # whole frames
        self.pending = 0  # bytes that the other side has not confirmed
        self._unconfirmed: deque[Parted] = deque()
        self._first = 0  # the number of the first of them
        self._at = 0  # which of them is being sent, ...
        self._offset = 0  # ... and from where on
        self._confirm = False
        self._parts = bytearray()
        self._lead = 0  # bytes of them before the frame, so that its bulk data are aligned
        self._total: int | None = None  # of the frame that is coming in

    @property
    def idle(self) -> bool:
        """Whether the other side has confirmed everything."""
        return not self._unconfirmed

    @property
    def settled(self) -> bool:
        """Whether both sides have confirmed everything, as far as this end has written it."""
        return self.idle and not self._confirm

    @property
    def progress(self) -> int:
        """Frames that have arrived, on either side."""
        return self.received + self._first

    def send(self, frame: AnyFrame) -> None:
        self._unconfirmed.append(frame if isinstance(frame, Parted) else Parted((frame,)))
        self.pending += len(frame)

    def next(self) -> bytes | None:
        """The next piece to write to the connection; None while there is nothing to send."""
        if self._confirm:
            self._confirm = False
            return bytes([_ACKNOWLEDGE]) + self.received.to_bytes(8, "big")
        if self._at >= len(self._unconfirmed):
            return None
        frame = self._unconfirmed[self._at]
        size, stop = len(frame), min(self._offset + PIECE_BYTES, len(frame))
        number = (self._first + self._at).to_bytes(8, "big")
        first = self._offset == 0
        head = bytes([_FIRST if first else _FURTHER]) + number + (size.to_bytes(8, "big") if first else b"")
        piece = b"".join([head, *frame.between(self._offset, stop)])
        self._at, self._offset = (self._at + 1, 0) if stop == size else (self._at, stop)
        return piece

    def announced(self, piece: bytes) -> int:
        """How many bytes of memory the frame needs that begins with this piece; 0 for any other piece."""
        if piece[:1] != bytes([_FIRST]) or len(piece) < OVERHEAD_BYTES or self._total is not None:
            return 0
        total = int.from_bytes(piece[9:17], "big")
        return total if total <= self.limit else 0  # `receive` refuses it

    def receive(self, piece: bytes) -> list[memoryview]:
        """Take a piece that came in. Raises PeerError where it is none that an honest other side sends.

        A frame lies where its pieces were put together: no copy is made of it.
        """
        if len(piece) > PIECE_BYTES + OVERHEAD_BYTES or len(piece) < 9:
            raise PeerError(f"a piece of {len(piece)} bytes on the wire")
        kind, number = piece[0], int.from_bytes(piece[1:9], "big")
        if kind == _ACKNOWLEDGE:
            self._confirmed(number)
            return []
        if kind == _FIRST:
            if len(piece) < OVERHEAD_BYTES:
                raise PeerError("a first piece without its length")
            return self._begin(number, int.from_bytes(piece[9:17], "big"), piece[17:])
        if kind == _FURTHER:
            return self._go_on(number, piece[9:])
        raise PeerError(f"a piece of unknown kind {kind}")

    def reconnected(self, count: int) -> None:
        """Resume over a new connection, on whose other side `count` frames have arrived."""
        self.disconnected()
        self._at, self._offset, self._confirm = 0, 0, False
        self._confirmed(count)

    def disconnected(self) -> None:
        """Drop the frame that was coming in: the other side sends it again from its beginning."""
        self._parts, self._lead, self._total = bytearray(), 0, None

    def _confirmed(self, count: int) -> None:
        if not self._first <= count <= self._first + len(self._unconfirmed):
            raise PeerError(
                f"{count} frames are said to have arrived, {self._first + len(self._unconfirmed)} were sent"
            )
        while self._first < count:
            self.pending -= len(self._unconfirmed.popleft())
            self._first += 1
            if self._at > 0:
                self._at -= 1
            else:
                self._offset = 0

    def _begin(self, number: int, total: int, data: bytes) -> list[memoryview]:
        if self._total is not None:
            raise PeerError("a frame begins inside another")
        if number != self.received:
            raise PeerError(f"frame {number}, expected {self.received}")
        if total > self.limit:
            raise PeerError(f"a frame of {total} bytes is announced, at most {self.limit} are allowed here")
        self._total = total
        self._lead = -bulk_at(data) % _ALIGNED
        self._parts = bytearray(self._lead)
        return self._add(data)

    def _go_on(self, number: int, data: bytes) -> list[memoryview]:
        if self._total is None or number != self.received:
            raise PeerError(f"a further piece of frame {number}, which has not begun")
        return self._add(data)

    def _add(self, data: bytes) -> list[memoryview]:
        self._parts += data
        total, there = self._total or 0, len(self._parts) - self._lead
        if there > total or (not data and total):
            raise PeerError(f"a frame of {total} bytes has more, or an empty piece")
        if there < total:
            return []
        frame = memoryview(self._parts)[self._lead :].toreadonly()
        self.disconnected()
        self.received += 1
        self._confirm = True
        return [frame]
