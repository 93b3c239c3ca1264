"""What the parties of a vertical logistic regression send each other. Bulk data are one byte string each."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tacit.wire import Message

Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Session = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]

HEAD = 256  # bytes of a message without its bulk data, at most


class Hello(Message, frozen=True, tag=70):
    """What a party brings: the others must bring as many rows, the same settings and the same past."""

    rows: Size
    features: Size
    outputs: Size  # of the model, K; 0 at a passive that begins a training and waits to be told
    positions: Annotated[tuple[Size, ...], msgspec.Meta(max_length=8)]  # steps that a training can be resumed at
    agreed: Digest  # of the settings
    session: Annotated[bytes, msgspec.Meta(max_length=16)] = b""  # of the training that is resumed, or used


class Begin(Message, frozen=True, tag=71):
    """From the active, once all rows agree: the number of this training, the step it begins at, a Paillier key, and the
    features of all parties together."""

    session: Session
    position: Size
    key: bytes
    certificate: bytes
    columns: Size


class MaskKey(Message, frozen=True, tag=72):
    """Between passives: half of the agreement from which their zero-sum masks come."""

    public: Digest


class Scores(Message, frozen=True, tag=73):
    """Step 2: a passive's w·x of a batch, K words a row; under zero-sum masks if there are several passives."""

    words: bytes


class Residues(Message, frozen=True, tag=74):
    """Step 5: the active's residues of the batch, encrypted, K a row."""

    ciphertexts: bytes


class MaskedGradient(Message, frozen=True, tag=75):
    """Step 8: a passive's gradient, output after output, packed under a uniform mask, encrypted and re-randomised."""

    ciphertexts: bytes


class Decrypted(Message, frozen=True, tag=76):
    """Step 9: the masked gradient, with the randomness of its ciphertext as proof."""

    values: bytes
    roots: bytes


class EpochOver(Message, frozen=True, tag=77):
    """From the active, after each epoch: whether to keep these weights as the best so far, and whether to continue."""

    best: bool
    last: bool
