"""Real gRPC servers on loopback that refuse a peer with the wrong certificate."""

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from tacit.errors import PeerError
from tacit.net.certificates import target_name
from tacit.net.grpc.credentials import (
    channel_credentials,
    channel_options,
    peer_identity,
    peer_name,
    server_credentials,
)
from tacit.net.identity import Authority
from tacit.net.tls import diagnose
from tests.net.loopback import certified
from tests.subprocesses import HANGS

LONG_AGO = datetime.now(UTC) - timedelta(days=20)
AUTHORITY = Authority.create(now=LONG_AGO)
OTHER = Authority.create(now=LONG_AGO)
COORDINATOR = certified(AUTHORITY, "coordinator")
CLIENT = certified(AUTHORITY, "client-3")


def expired(name):
    return certified(AUTHORITY, name, days=1, now=LONG_AGO)


@contextmanager
def serving(own):
    def who(request, context):
        found = peer_identity(context.auth_context(), own.authority)
        return peer_name(context.auth_context()).encode() + b" " + found.signing_public

    server = grpc.server(ThreadPoolExecutor(1))
    methods = {"Who": grpc.unary_unary_rpc_method_handler(who)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", methods),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(own))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def call(port, own, party="coordinator"):
    with grpc.secure_channel(f"127.0.0.1:{port}", own, channel_options(party)) as channel:
        return channel.unary_unary("/test/Who")(b"", timeout=HANGS)


def test_with_the_right_credentials_each_knows_the_other():
    with serving(COORDINATOR) as port:
        answer = call(port, channel_credentials(CLIENT))
        assert answer == b"client-3 " + CLIENT.signing_key.public
        assert diagnose("127.0.0.1", port, CLIENT, "coordinator") is None


@pytest.mark.parametrize(
    ("server", "client", "why"),
    [
        (COORDINATOR, certified(OTHER, "client-3"), "not signed by our authority"),
        (replace(COORDINATOR, authority=OTHER.certificate_pem), CLIENT, "did not accept the certificate of client-3"),
        (COORDINATOR, expired("client-3"), "did not accept the certificate of client-3: it expired on"),
        (expired("coordinator"), CLIENT, "the certificate that should be coordinator's is expired"),
        (certified(AUTHORITY, "client-3"), CLIENT, "client-3 is there, not coordinator"),
    ],
    ids=["another authority", "it trusts another authority", "ours expired", "theirs expired", "another party"],
)
def test_wrong_credentials_are_refused_and_the_reason_is_found(server, client, why):
    with serving(server) as port:
        with pytest.raises(grpc.RpcError) as caught:
            call(port, channel_credentials(client))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        found = diagnose("127.0.0.1", port, client, "coordinator")
        assert why in found
        assert "\n" not in found


def test_a_client_without_certificate_is_refused():
    with serving(COORDINATOR) as port, pytest.raises(grpc.RpcError) as caught:
        call(port, grpc.ssl_channel_credentials(root_certificates=AUTHORITY.certificate_pem))
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"x509_common_name": [b"client-3"]},
        {"x509_common_name": [b"client-3", b"client-4"], "x509_subject_alternative_name": [b"client-3.tacit.invalid"]},
        {"x509_common_name": [b"client-3"], "x509_subject_alternative_name": [b"client-4.tacit.invalid"]},
        {"x509_common_name": [b"\xff"], "x509_subject_alternative_name": [b"x"]},
    ],
)
def test_peer_name_takes_only_a_party(context):
    with pytest.raises(PeerError):
        peer_name(context)
    with pytest.raises(PeerError):
        peer_identity(context, AUTHORITY.certificate_pem)


def test_pythons_ssl_agrees():
    context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    context.set_alpn_protocols(["h2"])
    with serving(COORDINATOR) as port:
        for party, accepted in (("coordinator", True), ("client-3", False)):
            with socket.create_connection(("127.0.0.1", port), 10) as plain:
                try:
                    with context.wrap_socket(plain, server_hostname=target_name(party)) as secure:
                        assert secure.version() == "TLSv1.3"
                        seen = True
                except ssl.SSLCertVerificationError:
                    seen = False
            assert seen == accepted
