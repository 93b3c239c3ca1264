"""Enrolment over real TLS on loopback: who gets a certificate, and what others in between, or at the door, can do."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.config.source import ConfigError
from tacit.net import enrolment, enrolment_server
from tacit.net.authority_folder import AuthorityFolder
from tacit.net.certificates import key_pem
from tacit.net.enrolment import Declined, Enrol, Enrolled, Offer, enrol
from tacit.net.enrolment_server import EnrolmentServer
from tacit.net.enrolment_tokens import Token, create
from tacit.net.identity import identity_of, request
from tacit.net.key_files import init_authority, load_credentials, make_request
from tacit.net.pem_files import write_file
from tacit.net.revoking import revoke_name
from tacit.net.tls import readable
from tacit.wire import decode, encode
from tests.subprocesses import HANGS


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(enrolment, "_PAUSE", 0.01)


@pytest.fixture
def folder(tmp_path):
    init_authority(tmp_path / "ca")
    return AuthorityFolder(tmp_path / "ca")


class Serving:
    """A server in a thread; what it said."""

    def __init__(self, folder: AuthorityFolder, address: str = "127.0.0.1:0") -> None:
        self.said: list[str] = []
        self.port = 0
        self.server = EnrolmentServer(folder, self.said.append)
        self._address, self._there = address, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self.server.run(self._address, self._ready, self._stop)

    def _ready(self, port: int) -> None:
        self.port = port
        self._there.set()

    def __enter__(self) -> Serving:
        self._thread.start()
        assert self._there.wait(HANGS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(HANGS)

    def until_said(self, text: str) -> None:
        deadline = time.monotonic() + HANGS
        while not any(text in each for each in self.said):
            assert time.monotonic() < deadline, self.said
            time.sleep(0.01)


def token_for(folder, port, name="site-1", **options) -> Token:
    return create(folder, name, f"127.0.0.1:{port}", **options)


def changed(token: Token, **changes) -> str:
    return Token(**({name: getattr(token, name) for name in token.__struct_fields__} | changes)).text


def test_a_party_gets_all_that_its_local_file_names(folder, tmp_path):
    with Serving(folder) as serving:
        token = token_for(folder, serving.port)
        made = enrol(token.text, tmp_path / "site")
    credentials = load_credentials(made.private, made.certificate, made.authority, revoked=made.revoked)
    assert credentials.name == "site-1"
    assert credentials.revocations.newest.number == 1
    assert made.authority.read_bytes() == folder.certificate_pem
    assert made.private.stat().st_mode & 0o777 == 0o600
    assert [each.fingerprint for each in folder.issued("site-1")] == [made.fingerprint]
    (line,) = serving.said
    assert f"127.0.0.1: site-1 has a certificate for keys {made.fingerprint}" in line


def test_the_log_and_the_answers_hold_no_secret(folder, tmp_path):
    with Serving(folder) as serving:
        token = token_for(folder, serving.port)
        enrol(token.text, tmp_path / "one")
        with pytest.raises(ConfigError) as error:
            enrol(token.text, tmp_path / "two")
        serving.until_said("used already")
    told = "".join([*serving.said, str(error.value)])
    assert token.secret.hex() not in told
    assert token.text[-40:] not in told
    assert repr(token.secret) not in told + repr(Enrol(token.id, token.secret, b""))


def test_a_lost_answer_is_asked_for_again_with_the_same_keys(folder, tmp_path, monkeypatch):
    """The connection breaks after the server has signed. The same command again gets the same certificate."""
    sent = enrolment_server._send

    async def lost(writer, data):
        if len(serving.server._folder.issued()) == 1:
            writer.transport.abort()
            raise ConnectionResetError
        await sent(writer, data)

    with Serving(folder) as serving:
        token = token_for(folder, serving.port)
        monkeypatch.setattr(enrolment_server, "_send", lost)
        with pytest.raises(ConfigError, match=r"does not answer as an enrolment server .* repeat the command"):
            enrol(token.text, tmp_path / "site")
        monkeypatch.setattr(enrolment_server, "_send", sent)
        private = (tmp_path / "site/site-1.private.pem").read_bytes()
        made = enrol(token.text, tmp_path / "site")
        assert made.private.read_bytes() == private
        with pytest.raises(ConfigError, match=r"site-1\.certificate\.pem exists and is not overwritten"):
            enrol(token.text, tmp_path / "site")
        with pytest.raises(ConfigError, match="used already, for other keys"):
            enrol(token.text, tmp_path / "another")
    assert len(folder.issued()) == 1


def test_new_keys_by_force_need_another_token(folder, tmp_path):
    with Serving(folder) as serving:
        first = enrol(token_for(folder, serving.port).text, tmp_path)
        again = enrol(token_for(folder, serving.port).text, tmp_path, overwrite=True)
    assert first.fingerprint != again.fingerprint
    assert load_credentials(again.private, again.certificate, again.authority).name == "site-1"


def test_keys_in_use_stay_until_there_is_a_certificate_for_new_ones(folder, tmp_path, monkeypatch):
    """By --force, with a token that is not good any more, and with an answer that is lost."""
    site, sent = tmp_path / "site", enrolment_server._send

    async def lost(writer, data):
        if len(folder.issued()) == 2:
            writer.transport.abort()
            raise ConnectionResetError
        await sent(writer, data)

    with Serving(folder) as serving:
        used, good = token_for(folder, serving.port), token_for(folder, serving.port)
        first = enrol(used.text, site)
        before = files_in(site)
        with pytest.raises(ConfigError, match="used already, for other keys"):
            enrol(used.text, site, overwrite=True)
        assert before.items() <= files_in(site).items()
        monkeypatch.setattr(enrolment_server, "_send", lost)
        with pytest.raises(ConfigError, match="repeat the command"):
            enrol(good.text, site, overwrite=True)
        assert before.items() <= files_in(site).items()
        monkeypatch.setattr(enrolment_server, "_send", sent)
        again = enrol(good.text, site, overwrite=True)
    assert load_credentials(again.private, again.certificate, again.authority).name == "site-1"
    assert again.fingerprint != first.fingerprint
    assert len(folder.issued()) == 2
    assert files_in(site).keys() == before.keys()


@pytest.mark.parametrize("count", range(1, 6))
def test_a_replacement_that_is_killed_is_completed_by_the_same_command(folder, tmp_path, monkeypatch, count):
    class Killed(BaseException):
        pass

    writes, write = 0, write_file

    def doomed(*arguments):
        nonlocal writes
        writes += 1
        if writes == count:
            raise Killed
        write(*arguments)

    with Serving(folder) as serving:
        enrol(token_for(folder, serving.port).text, tmp_path)
        token = token_for(folder, serving.port)
        with monkeypatch.context() as patch:
            patch.setattr(enrolment, "write_file", doomed)
            with pytest.raises(Killed):
                enrol(token.text, tmp_path, overwrite=True)
        made = enrol(token.text, tmp_path, overwrite=True)
    assert load_credentials(made.private, made.certificate, made.authority).expires == made.expires
    assert len({each.fingerprint for each in folder.issued()}) == 2


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("wrong", ["another authority", "other keys"])
def test_a_folder_that_does_not_fit_is_noticed_before_the_token_is_used(folder, tmp_path, wrong):
    """Used, it would be good for these keys only: the remedy in the message would not help."""
    site = tmp_path / "site"
    site.mkdir()
    if wrong == "another authority":
        init_authority(tmp_path / "other")
        (site / "authority.pem").write_bytes((tmp_path / "other" / "authority.pem").read_bytes())
        why = "is of another authority than this token: give an empty folder by --out"
    else:
        make_request("site-1", site)
        (site / "site-1.request.pem").write_bytes(request("site-1")[1])
        why = r"site-1\.request\.pem is not of the keys in .*site-1\.private\.pem: move both away"
    with Serving(folder) as serving:
        token = token_for(folder, serving.port)
        with pytest.raises(ConfigError, match=why):
            enrol(token.text, site)
        assert enrol(token.text, tmp_path / "empty").name == "site-1"


def test_an_older_list_does_not_take_the_place_of_a_newer_one(folder, tmp_path):
    """Such as of an authority that was restored from a backup as a whole."""
    backup = tmp_path / "backup"
    with Serving(folder) as serving:
        enrol(token_for(folder, serving.port).text, tmp_path / "site")
    shutil.copytree(folder.folder, backup)
    revoke_name(folder, "site-1")
    newest = folder.revoked_file.read_bytes()
    (tmp_path / "site" / "revoked.pem").write_bytes(newest)
    restored = AuthorityFolder(backup)
    with (
        Serving(restored) as serving,
        pytest.raises(ConfigError, match=r"is not used: revocation list 1 .* is older than revocation list 2"),
    ):
        enrol(token_for(restored, serving.port).text, tmp_path / "site", overwrite=True)
    assert (tmp_path / "site" / "revoked.pem").read_bytes() == newest


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "site-2"}, "the token is for site-1, and the request for site-2"),
        ({"secret": bytes(16)}, "not known here"),
        ({"id": bytes(8)}, "not known here"),
        ({"authority": bytes(32)}, "another authority is there .* nothing was sent to it"),
        ({"expires": 10}, "expired on 1970-01-01"),
        ({"expires": 2**40}, None),  # the authority's own file says until when
    ],
)
def test_a_tampered_token_is_refused(folder, tmp_path, change, why):
    with Serving(folder) as serving:
        token = token_for(folder, serving.port)
        if why is None:
            assert enrol(changed(token, **change), tmp_path / "site").name == "site-1"
            return
        with pytest.raises(ConfigError, match=why):
            enrol(changed(token, **change), tmp_path / "site")
        assert folder.issued() == []
        assert enrol(token.text, tmp_path / "right").name == "site-1"  # it is not used up by that


# --- who is in between


class Between:
    """A TLS server of an attacker. It keeps what it hears."""

    def __init__(self, offer: bytes, chain: tuple[bytes, bytes]) -> None:
        self.heard = b""
        self._offer = offer
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with readable(chain[0]) as certificate, readable(chain[1]) as key:
            self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(HANGS)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        with suppress(OSError):
            plain, _ = self._listener.accept()
            with self._context.wrap_socket(plain, server_side=True) as secure:
                self.hang_up = lambda: secure.shutdown(socket.SHUT_RDWR)
                secure.sendall(len(self._offer).to_bytes(4, "big") + self._offer)
                while piece := secure.recv(1 << 16):
                    self.heard += piece

    def __enter__(self) -> Between:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(HANGS)
        self._listener.close()


def own_chain(folder: AuthorityFolder) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    return folder.authority.enrolment_certificate(key.public_key()), key_pem(key)


def partys_chain(folder: AuthorityFolder) -> tuple[bytes, bytes]:
    private, asked = request("client-5")
    return folder.sign(asked), private[: private.index(b"-----END PRIVATE KEY-----") + 26]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("another authority", "another authority is there than the one that gave out this token"),
        ("shows the right authority, has its own", "signed by another authority"),
        ("a party of the same authority", "another party of the same authority is"),
        ("no certificate", "not a readable certificate"),
        ("the right one", None),
    ],
)
def test_an_attacker_in_between_hears_nothing(folder, tmp_path, how, why):
    init_authority(tmp_path / "other")
    other = AuthorityFolder(tmp_path / "other")
    offers = {"another authority": other.certificate_pem, "no certificate": b"x"}
    chains = {"a party of the same authority": partys_chain(folder), "the right one": own_chain(folder)}
    offer = encode(Offer(offers.get(how, folder.certificate_pem)))
    with Between(offer, chains.get(how, own_chain(other))) as between:
        token = token_for(folder, between.port)
        if why is None:  # the control: this is where it would be heard
            thread = threading.Thread(
                target=lambda: _ignored(lambda: enrol(token.text, tmp_path / "site")), daemon=True
            )
            thread.start()
            deadline = time.monotonic() + HANGS
            while token.secret not in between.heard:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            between._listener.close()
            between.hang_up()
            thread.join(HANGS)
            return
        with pytest.raises(ConfigError, match=why):
            enrol(token.text, tmp_path / "site")
    assert between.heard == b""
    assert not (tmp_path / "site/site-1.certificate.pem").exists()


def _ignored(function) -> None:
    with suppress(Exception):
        function()


def test_a_relay_in_between_learns_and_changes_nothing(folder, tmp_path):
    """It passes bytes on as they are, to the right server: it sees no secret; and a changed byte ends it."""
    with Serving(folder) as serving:
        seen = bytearray()
        for flip in (False, True):
            token = None
            with relaying(serving.port, seen, flip) as port:
                token = token_for(folder, port)
                if flip:
                    with pytest.raises(ConfigError):
                        enrol(token.text, tmp_path / "flipped")
                else:
                    enrol(token.text, tmp_path / "passed")
            assert token.secret not in seen
            assert len(seen) > 1000  # the control: it saw the conversation
    assert len(folder.issued()) == 1


@contextmanager
def relaying(target, seen, flip):
    listener, opened = socket.create_server(("127.0.0.1", 0)), []

    def carry(source, sink, up):
        count = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                seen.extend(data)
                count += len(data)
                if flip and up and count > 700:  # beyond the handshake
                    data = data[:-1] + bytes([data[-1] ^ 1])
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept():
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", target))
                opened.extend([near, far])
                for way in ((near, far, True), (far, near, False)):
                    threading.Thread(target=carry, args=way, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for each in [listener, *opened]:
            each.close()


@pytest.mark.parametrize(
    "worse",
    ["another name", "other keys", "another authority's", "a stranger's list", "nonsense", "a revoked certificate"],
)
def test_a_party_takes_nothing_that_is_not_what_it_asked_for(folder, tmp_path, monkeypatch, worse):
    """The right server, gone wrong."""
    init_authority(tmp_path / "other")
    other = AuthorityFolder(tmp_path / "other")

    async def answer(self, asked, where):
        listed = folder.revoked().data
        match worse:
            case "another name":
                return Enrolled(folder.sign(request("site-2")[1]), listed)
            case "other keys":
                return Enrolled(folder.sign(request("site-1")[1]), listed)
            case "another authority's":
                return Enrolled(other.sign(asked.request), listed)
            case "a stranger's list":
                return Enrolled(folder.sign(asked.request), other.revoked().data)
            case "a revoked certificate":
                made = folder.sign(asked.request)
                return Enrolled(made, revoke_name(folder, "site-1")[0].data)
        return Enrolled(b"nothing", listed)

    monkeypatch.setattr(EnrolmentServer, "_answer", answer)
    with (
        Serving(folder) as serving,
        pytest.raises(ConfigError, match="what the enrolment server sent is not used"),
    ):
        enrol(token_for(folder, serving.port).text, tmp_path / "site")
    assert not (tmp_path / "site/site-1.certificate.pem").exists()
    assert not (tmp_path / "site/authority.pem").exists()


# --- who is at the door


def connected(port) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port))
    plain.settimeout(HANGS)
    return enrolment._context().wrap_socket(plain)


def received(secure) -> bytes:
    data = b""
    with suppress(OSError):
        while piece := secure.recv(1 << 16):
            data += piece
    return data


def exchanged(port, data) -> bytes:
    """What the server says to these bytes, after its offer."""
    with connected(port) as secure:
        with suppress(OSError):
            secure.sendall(data)
        said = received(secure)
    return said[4 + int.from_bytes(said[:4], "big") :]


def test_guesses_are_limited_and_do_a_holder_elsewhere_no_harm(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(enrolment_server, "_PAUSE", 0.0)
    with Serving(folder) as serving:
        token = token_for(folder, serving.port)
        _, asked = request("site-1")
        answers = []
        for number in range(enrolment_server._WRONG):
            guess = encode(Enrol(token.id, number.to_bytes(16, "big"), asked))
            answers.append(exchanged(serving.port, len(guess).to_bytes(4, "big") + guess))
        assert all(b"not known here" in answer for answer in answers)
        assert len(set(answers)) == 1
        with pytest.raises(OSError):  # noqa: PT011
            connected(serving.port).close()
        serving.until_said("too many wrong tokens")
        serving.server._wrong.clear()  # a minute later, or from another address
        assert enrol(token.text, tmp_path / "site").name == "site-1"


@pytest.mark.parametrize(
    "data",
    [
        (1 << 31).to_bytes(4, "big"),
        (enrolment.LARGEST_REQUEST + 1).to_bytes(4, "big") + bytes(100),
        (4).to_bytes(4, "big") + b"abcd",
        (3000).to_bytes(4, "big") + encode(Declined("x" * 200)) + bytes(3000),
        b"GET / HTTP/1.1\r\n\r\n" * 300,
    ],
    ids=["announces 2 GiB", "announces more than the limit", "nonsense", "another message", "http"],
)
def test_what_is_no_request_gets_no_answer_and_costs_nothing(folder, tmp_path, data):
    with Serving(folder) as serving:
        assert exchanged(serving.port, data) == b""
        assert enrol(token_for(folder, serving.port).text, tmp_path / "site").name == "site-1"
    assert all("the authority's own fault" not in each for each in serving.said)


def test_an_oversized_answer_is_not_read(folder, tmp_path, monkeypatch):
    async def answer(writer, data):
        writer.write((1 << 30).to_bytes(4, "big") + data)
        await writer.drain()
        await asyncio.sleep(1)

    monkeypatch.setattr(enrolment_server, "_send", answer)
    with Serving(folder) as serving, pytest.raises(ConfigError, match="a message of 1073741824 bytes, at most"):
        enrol(token_for(folder, serving.port).text, tmp_path / "site")


@pytest.mark.parametrize("stage", ["before TLS", "within the handshake", "after the handshake", "within the request"])
def test_slow_connections_end_and_hold_up_nobody(folder, tmp_path, monkeypatch, stage):
    """As many as one address may have, each a byte at a time. Another one is turned away, and let in afterwards."""
    monkeypatch.setattr(enrolment_server, "_SECONDS", 1.0)
    monkeypatch.setattr(enrolment_server, "_OF_ONE", 4)
    with Serving(folder) as serving:
        slow = []
        for _ in range(4):
            if stage in ("before TLS", "within the handshake"):
                made = socket.create_connection(("127.0.0.1", serving.port))
                if stage == "within the handshake":
                    made.sendall(b"\x16\x03\x01")
            else:
                made = connected(serving.port)
                if stage == "within the request":
                    made.sendall((1000).to_bytes(4, "big") + b"x")
            slow.append(made)
        deadline = time.monotonic() + HANGS
        while serving.server._open.total() < 4 and not serving.said:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        serving.until_said("not done in 1 s")
        while serving.server._open.total():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert enrol(token_for(folder, serving.port).text, tmp_path / "site").name == "site-1"
        for each in slow:
            each.close()


def test_connections_of_one_address_are_limited(folder, monkeypatch):
    monkeypatch.setattr(enrolment_server, "_OF_ONE", 2)
    with Serving(folder) as serving:
        held = [connected(serving.port) for _ in range(2)]
        with pytest.raises(OSError):  # noqa: PT011
            connected(serving.port)
        serving.until_said("too many connections of one address")
        for each in held:
            each.close()


@pytest.mark.parametrize("addresses", [3, 6])
def test_connections_of_many_addresses_displace_each_other_and_no_holder_of_a_token(
    folder, tmp_path, monkeypatch, addresses
):
    """All connections that there may be are taken, by strangers who say nothing, and each has time for its request."""
    monkeypatch.setattr(enrolment_server, "_CONNECTIONS", 6)
    monkeypatch.setattr(enrolment_server, "_OF_ONE", 2)
    monkeypatch.setattr(enrolment_server, "_SECONDS", HANGS)
    with Serving(folder) as serving:
        silent = [
            socket.create_connection(
                ("127.0.0.1", serving.port), source_address=(f"127.0.0.{2 + number % addresses}", 0)
            )
            for number in range(6)
        ]
        assert enrol(token_for(folder, serving.port).text, tmp_path / "site").name == "site-1"
        assert silent[0].recv(1) == b""  # the oldest
        serving.until_said("too many connections, of which it was the oldest")
        for each in silent:
            each.close()


def test_tls_1_2_is_refused(folder):
    context = enrolment._context()
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with Serving(folder) as serving, socket.create_connection(("127.0.0.1", serving.port)) as plain:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(plain)
        serving.until_said("no TLS 1.3")


def test_the_servers_certificate_is_no_partys(folder, tmp_path):
    """Its holder cannot pose as a party with it, and no party with its own as the server (see above)."""
    with pytest.raises(Exception, match="not for the name of a party"):
        identity_of(own_chain(folder)[0], folder.certificate_pem)


def test_an_address_that_is_taken_is_said(folder):
    with Serving(folder) as serving:
        again = EnrolmentServer(folder, print)

        async def scenario():
            await again.run(f"127.0.0.1:{serving.port}", lambda port: None, asyncio.Event())

        with pytest.raises(ConfigError, match="cannot be listened on"):
            asyncio.run(scenario())


def test_a_server_that_is_not_there_is_said(folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConfigError, match=r"refused\): is `tacit keys serve` running there"):
        enrol(token_for(folder, port).text, tmp_path / "site")
    assert Path(tmp_path / "site/site-1.private.pem").exists()


def test_an_answer_has_the_bounds_that_its_reader_has():
    with pytest.raises(Exception, match="length <= 2048"):
        decode(encode(Enrol(bytes(8), bytes(16), bytes(2049))), Enrol, 4096)
