"""A server learns the mean of what five parties hold, and nothing else; one of them vanishes on the way.

Run it: python examples/secure_sum.py
"""

from __future__ import annotations

import hashlib

import numpy as np

from tacit.crypto.signing import SigningKey
from tacit.secagg import Client, Context, Encoding, Server, State
from tacit.secagg.messages import Masked

salaries = {1: [4200.0, 12.0], 2: [5100.0, 7.0], 3: [3900.0, 20.0], 4: [8800.0, 3.0], 5: [6100.0, 9.0]}
vanishing = {2}  # its phone runs out of battery before it uploads

encoding = Encoding(values=2, bound=20_000.0, clients=5, fraction_bits=10)
settings = encoding.settings()  # active mode: the server may cheat, together with one of the parties
context = Context(settings, model=hashlib.sha256(b"salaries 2026").digest(), round=0)

keys = {i: SigningKey.generate() for i in salaries}  # in real life each party makes its own and shows the public one
identities = {i: key.public for i, key in keys.items()}
server = Server(context, salaries, identities=identities)
clients = {i: Client(context, i, encoding.encode(v), key=keys[i], identities=identities) for i, v in salaries.items()}

now = 0.0  # seconds; the protocol reads no clock of its own
server.start(now)
to_server = [(i, message) for i, client in clients.items() for message in client.start(now)]
while server.state < State.READY:
    to_clients = [out for sender, message in to_server for out in server.receive(sender, message, now)]
    if not to_clients:  # nobody answers any more: let the stage's time run out
        now += settings.cipher_time_window / 1000
        to_clients = server.tick(now)
    print(f"{server.state.name:<10} the server sends {len(to_clients)} messages")
    to_server = []
    for receiver, message in to_clients:
        for answer in clients[receiver].receive(message, now):
            if isinstance(answer, Masked):
                words = np.frombuffer(answer.words, np.uint32)
                print(f"           party {receiver} {'vanishes' if receiver in vanishing else f'uploads {words}'}")
            if not (isinstance(answer, Masked) and receiver in vanishing):
                to_server.append((receiver, answer))

if server.state is State.ABORTED:
    raise SystemExit(server.reason)
result = server.finish()
mean = encoding.decode(result.words, len(result.survivors)).mean
print(f"mean over parties {result.survivors}: {mean}")
