"""Oblivious transfer between two parties that follow the protocol: a receiver chooses, and the sender learns not what.

    base          128 transfers of keys by Diffie-Hellman (Naor, Pinkas 2001), about 50 ms a party
    extension     millions of random transfers from these (Ishai, Kilian, Nissim, Petrank 2003)
    transfers     chosen messages, and words of 64 or 128 bits with a chosen difference, from random transfers
    one_of_many   one of 2^L table entries from L transfers (Naor, Pinkas 1999)
    transpose     matrices of bits;  words: arithmetic modulo 2^64 and 2^128

Guarantee: a receiver learns the message of its choice and nothing about the others; a sender learns nothing about the
    choice. Each module names its own assumptions.
Assumes: both parties are semi-honest. Anything that a party can notice in a message is checked (lengths, encodings,
    bounds) and refused with PeerError; a party that sends well-formed but wrong messages is not noticed, and may learn
    more. The computational security is that of 128-bit blocks: see `tacit.crypto.fixed_key` for the bound.

A session is made once in a meeting of two parties and lives in memory only. Every random transfer of it has a number,
the tweak of its hash, which both sides count; no number is used twice, and a new session has new keys.
"""

from __future__ import annotations

from tacit.crypto.ot.extension import Invitation, Receiver, Sender, invite, join

__all__ = ["Invitation", "Receiver", "Sender", "invite", "join"]
