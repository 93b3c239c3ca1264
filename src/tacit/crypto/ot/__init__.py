"""Oblivious transfer: a receiver gets one of several messages, and the sender does not learn which.

    base          128 transfers of keys by Diffie-Hellman on ristretto255, about 50 ms a party
    extension     millions of random transfers from these: `invite`, `join`, `extend`; ten million a second
    transfers     chosen messages, and words of 64 or 128 bits with a chosen difference, from random transfers
    one_of_many   one of 2^L table entries from L transfers
    transpose     matrices of bits;  words: arithmetic modulo 2^64 and 2^128

Guarantee: a receiver learns the message of its choice and nothing about the others. A sender learns nothing about the
    choice: from the base transfers not with any computation, from the extension unless it breaks AES.
Assumes: both parties are semi-honest: they follow the protocol and keep what they see. Computational Diffie-Hellman in
    ristretto255, SHA-256 as a random oracle (`base`); AES-128 as a pseudo-random function (`extension`) and, under a
    public key, as an ideal permutation (`tacit.crypto.fixed_key`, with the bound).
Source: Naor, Pinkas 2001 (`base`); Ishai, Kilian, Nissim, Petrank 2003, and Asharov, Lindell, Schneider, Zohner 2013
    (`extension`, `transfers`); Naor, Pinkas 1999 (`one_of_many`); Guo, Katz, Wang, Yu 2020 (the hash).

What is checked: the length of every message, before anything is allocated or computed from it; that points are
canonical encodings, and not zero; the number of transfers at once. A refusal is a PeerError and uses nothing up. What
is not checked: that a receiver's columns hold one choice in all rows, and that a sender's messages are what it should
send. A party that deviates there is not noticed, and a receiver can find bits of the sender's secret in that way.

A session is made once in a meeting of two parties and lives in memory only, in one process: a fork would use its
streams twice. Every random transfer of it has a number, the tweak of its hash, which both sides count; no number is
used twice, and a new session has new keys. Python's integers and numpy's indexing do not take constant time.
"""

from __future__ import annotations

from tacit.crypto.ot.extension import Invitation, Receiver, Sender, invite, join

__all__ = ["Invitation", "Receiver", "Sender", "invite", "join"]
