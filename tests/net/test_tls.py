"""Why a connection fails, where there is no party to talk to. With one: see `grpc/test_credentials.py`."""

import socket
import struct
import threading
from contextlib import suppress

import pytest

from tacit.net.identity import Authority
from tacit.net.tls import diagnose
from tests.net.loopback import certified

CLIENT = certified(Authority.create(), "client-3")


@pytest.mark.parametrize("after", [0, 1], ids=["at once", "in the handshake"])
def test_a_connection_that_is_cut_is_not_taken_for_a_refused_certificate(after):
    """So a party that has too many connections ends one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def cut():
            with suppress(OSError):  # until nobody listens any more
                while True:
                    near, _ = listener.accept()
                    if after:
                        near.recv(after)
                    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    near.close()

        thread = threading.Thread(target=cut)
        thread.start()
        found = diagnose("127.0.0.1", listener.getsockname()[1], CLIENT, "coordinator")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert "cut" in found
    assert "certificate" not in found


def test_diagnose_says_that_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert "no process listens" in diagnose("127.0.0.1", unused.getsockname()[1], CLIENT, "coordinator")


def test_diagnose_says_that_no_tls_is_spoken():
    def answer(listening):
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    if connection.recv(1000):
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,))
        thread.start()
        assert "does not speak TLS" in diagnose("127.0.0.1", listening.getsockname()[1], CLIENT, "coordinator")
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_diagnose_gives_up_on_a_silent_listener():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert "does not answer" in diagnose("127.0.0.1", port, CLIENT, "coordinator", timeout=0.2)
