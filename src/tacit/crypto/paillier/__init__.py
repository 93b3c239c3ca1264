"""Paillier's cryptosystem: add encrypted integers, and multiply a matrix of integers with an encrypted vector.

    generate(bits)                  a PrivateKey of 2048, 3072 (default) or 4096 bits; its `public` goes to the others
    PublicKey, PrivateKey           encrypt, add, multiply, pack, rerandomize, decrypt; as bytes and back
    Ciphertexts                     a vector of ciphertexts under one key; as bytes of fixed width and back
    unpack(value, slot_bits, n)     the integers that `PublicKey.pack` put into one plaintext
    Workers(n)                      encrypt, decrypt, multiply, sums and rerandomize on a pool of processes

Plaintexts are integers modulo n. Signed ones lie in (-n/2, n/2); what does not fit is refused, nothing wraps silently.
Floats become integers with `tacit.fixedpoint.Grid`.

Guarantee: the public key alone reveals nothing about ciphertexts. `rerandomize` makes what a party computed on
    ciphertexts look like a fresh encryption of the result, also to the owner of the private key.
Assumes: decisional composite residuosity for a modulus of that length; for the owner's own encryptions also the short
    exponents of Damgård, Jurik and Nielsen (see `fixed_base`). Parties are semi-honest: nothing proves that a modulus
    has two primes or that a party computed what it should.
Limits: not constant-time (GMP and Python branch on secrets), so do not let others time single operations. Python does
    not wipe integers: private keys stay in memory until it is reused, and in swap or a core dump if there is one.
    Ciphertexts are malleable by design: authenticate the channel.
Source: Paillier 1999; Damgård, Jurik, Nielsen 2010.
"""

from tacit.crypto.paillier.ciphertexts import Ciphertexts
from tacit.crypto.paillier.packing import unpack
from tacit.crypto.paillier.pool import Workers
from tacit.crypto.paillier.private import PrivateKey, generate
from tacit.crypto.paillier.public import SIZES, PublicKey

__all__ = ["SIZES", "Ciphertexts", "PrivateKey", "PublicKey", "Workers", "generate", "unpack"]
