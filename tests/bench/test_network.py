"""What the benchmark of the network measures with: a proxy that counts, and a federation whose sum is checked."""

import asyncio
import socket
import threading

import pytest

from bench import network
from tacit.audit.attacks.wiretap import Wiretap


def echoing(listener: socket.socket) -> None:
    """Answer everything twice, until the other side ends."""
    end, _ = listener.accept()
    with end:
        while data := end.recv(1000):
            end.sendall(data + data)


def test_a_wiretap_counts_and_keeps_what_passes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echoing, args=(listener,), daemon=True).start()
        target = listener.getsockname()[1]
        with Wiretap(target, keep=True) as tap, socket.create_connection(("127.0.0.1", tap.port)) as end:
            end.sendall(b"x" * 3000)
            end.shutdown(socket.SHUT_WR)
            answered = b""
            while data := end.recv(10_000):
                answered += data
        assert answered == b"x" * 6000
        assert (tap.up, tap.down) == (3000, 6000)
        assert (tap.sent, tap.answered) == (b"x" * 3000, answered)


@pytest.mark.parametrize("make", [network.Party.unsigned, network.Party.signed])
def test_a_tapped_round_sends_the_vector_and_little_else(make) -> None:
    words = 30_000
    settings = network.masked(5, words, 1)
    with Wiretap(0) as tap:
        seconds = asyncio.run(network.over_network(settings, words - 1, make(5), tap))
    assert len(seconds) == 1
    assert 8 * words < tap.up < network.OVERHEAD * 8 * words
    assert tap.down > 4 * words  # the model, of float32


def test_every_client_answers_in_the_small_exchange() -> None:
    single, burst = asyncio.run(network._exchanges(20, network.Party.signed(5)))
    assert (len(single), len(burst)) == (20, 10)
    assert 0 < min(single) <= max(burst) < 10
