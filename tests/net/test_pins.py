"""Who a client takes others for, over a run: renewed certificates pass, other keys and expired certificates do not.

Neither ends the run of a client whose own certificate is good, whatever the coordinator shows it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tacit.config.source import ConfigError
from tacit.errors import PeerAway, PeerError
from tacit.events import AnswerRefused, Kept, Noted
from tacit.net.grpc import connection
from tacit.net.grpc import server as server_module
from tacit.net.grpc.credentials import peer_identity
from tacit.net.handshake import Identities
from tacit.net.hub import Hub
from tacit.net.identity import Authority, Credentials, identity_of, request
from tacit.net.pins import Pins
from tacit.net.spoke import Spoke
from tacit.runs.join import pins_in
from tacit.secagg.messages import pack_ids
from tacit.store.party_folder import check_copies
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.net.loopback import Federation, certified, quickly, until
from tests.subprocesses import HANGS

LONG_AGO = datetime.now(UTC) - timedelta(days=20)
AUTHORITY = Authority.create(now=LONG_AGO)
MASKED = {"encrypt_type": "PW_ENCRYPT", "mode": "active"}
CLIENTS = 7  # of which one may be missing


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(connection, "_LONGEST_PAUSE", 0.3)


def federation(pins=lambda name: Pins(), **keys) -> Federation:
    keys = {"clients": CLIENTS, "rounds": 2, "encrypt": MASKED, "update_model_ratio": 0.6} | keys
    return Federation(settings_for(**keys), Numbers(), AUTHORITY, pins)


class Asked:
    """A party's keys, and certificates for them."""

    def __init__(self, name: str) -> None:
        self.private, self._request = request(name)

    def certificate(self, days: int = 50, now: datetime | None = None) -> bytes:
        return AUTHORITY.sign(self._request, days, now)

    def credentials(self, days: int = 50, now: datetime | None = None) -> Credentials:
        return Credentials.of(self.private, self.certificate(days, now), AUTHORITY.certificate_pem, now)


EXPIRED = Asked("client-1").certificate(2, LONG_AGO)
NOT_YET = Asked("client-1").certificate(5, datetime.now(UTC) + timedelta(days=3))


def refusals(engine):
    return [event.reason for event in engine._sink.events if isinstance(event, AnswerRefused)]


def said(engine) -> list[str]:
    return [event.text for event in engine._sink.events if isinstance(event, Noted)]


# --- the pins themselves


def test_renewed_certificates_pass_and_other_keys_do_not():
    first, other = Asked("client-1"), Asked("client-1")
    pins = Pins()
    pins.meet(identity_of(first.certificate(10), AUTHORITY.certificate_pem))
    pins.meet(identity_of(first.certificate(40), AUTHORITY.certificate_pem))
    for refused in (pins.meet, pins.check):
        with pytest.raises(PeerError, match=r"client-1 has other keys \(fingerprint .* than when it was first met"):
            refused(identity_of(other.certificate(), AUTHORITY.certificate_pem))
    pins.meet(identity_of(first.certificate(), AUTHORITY.certificate_pem))  # the first ones stay
    pins.meet(identity_of(Asked("client-2").certificate(), AUTHORITY.certificate_pem))


def test_either_of_the_two_keys_counts():
    """An authority that certifies another party's signing key with a TLS key of its own does not pass either."""
    found = identity_of(Asked("client-1").certificate(), AUTHORITY.certificate_pem)
    mixed = identity_of(Asked("client-1").certificate(), AUTHORITY.certificate_pem)
    pins = Pins()
    pins.meet(found)
    with pytest.raises(PeerError, match="other keys"):
        pins.meet(replace(mixed, signing_public=found.signing_public))


def test_pins_are_stored_and_read_again(tmp_path):
    first = identity_of(Asked("client-1").certificate(), AUTHORITY.certificate_pem)
    pins = pins_in(tmp_path)
    pins.save()
    assert not list(tmp_path.iterdir())  # there is nothing to keep
    pins.meet(first)
    pins.save()
    written = (tmp_path / "peers.json").stat().st_mtime_ns
    pins.meet(first)
    pins.save()
    assert (tmp_path / "peers.json").stat().st_mtime_ns == written
    again = pins_in(tmp_path)
    again.meet(first)
    with pytest.raises(PeerError, match="other keys"):
        again.meet(identity_of(Asked("client-1").certificate(), AUTHORITY.certificate_pem))


def test_damaged_pins_are_not_taken_for_none(tmp_path):
    pins = pins_in(tmp_path)
    pins.meet(identity_of(Asked("client-1").certificate(), AUTHORITY.certificate_pem))
    pins.save()
    path = tmp_path / "peers.json"
    path.write_bytes(path.read_bytes().replace(b"client-1", b"client-2"))
    for read in (pins_in, check_copies):
        with pytest.raises(ConfigError, match=r"peers\.json.*--previous"):
            read(tmp_path)


# --- a client, and what the coordinator shows it


def shows(found: Federation, shown: bytes, to=lambda client: True, attempts=(1,)) -> None:
    """Have the coordinator show this certificate as client 1's in these attempts, and the true one otherwise."""
    introduce = found.host._introduce

    def introduced(clients):
        true = found.host._proofs[1]
        lies = found.coordinator.attempts in attempts
        for client in clients:
            found.host._proofs[1] = shown if lies and to(client) and client != 1 else true
            found.host._told.setdefault(client, set()).discard(1)
            introduce_one(client, clients)
        found.host._proofs[1] = true

    def introduce_one(client, clients):
        told = found.host._told
        kept = {other: set(known) for other, known in told.items() if other != client}
        for other in clients:
            if other != client:
                told[other] = set(clients)  # nothing is new to it
        introduce(clients)
        told.update(kept)

    found.host._introduce = introduced


async def joined(found: Federation) -> dict:
    async with found.serve():
        for identity in range(found.settings.clients):
            found.join(identity)
        return await found.done()


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (EXPIRED, "the certificate of client-1 expired on"),
        (NOT_YET, "the certificate of client-1 is not valid before"),
        (Asked("client-2").certificate(), "the certificate is of client-2"),
        (b"nonsense", "this is not a readable certificate"),
        (certified(Authority.create(), "client-1").certificate, "signed by another authority"),
    ],
    ids=["expired", "not yet valid", "another's", "nonsense", "another authority's"],
)
def test_a_client_that_is_shown_a_bad_certificate_declines_the_round_and_stays(shown, reason):
    """All are shown it in the first attempt, which fails; the run goes on, and ends well for all of them."""

    async def scenario():
        found = federation()
        shows(found, shown)
        return found, await joined(found)

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert len(found.aborted()) == 1
    assert found.survivors == [7]
    for identity in (0, 2, 3, 4, 5, 6):
        told = said(found.clients[identity])
        assert len([text for text in told if text.startswith("client 1 is left out: ") and reason in text]) == 1
        assert [
            text for text in refusals(found.clients[identity]) if text.startswith("client 1 is not among the known")
        ]
        assert "it left the round: client 1 is not among the known identities" in found.refused()[identity]


def test_only_the_client_that_is_deceived_leaves_the_round():
    async def scenario():
        found = federation()
        shows(found, EXPIRED, to=lambda client: client == 0)
        return found, await joined(found)

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert (found.survivors, found.aborted()) == ([6, 7], [])
    assert list(found.refused()) == [0]


def test_other_keys_for_a_name_are_refused_for_the_rest_of_the_run(tmp_path):
    """Attempt 2 shows client 0 a second certificate for client 1, which the authority did sign, and so does attempt 3,
    after client 0 was started again: what it knows lies in its folder."""
    other = Asked("client-1").certificate()

    async def scenario():
        found = federation(lambda name: pins_in(tmp_path / name), rounds=3)
        for name in ["coordinator", *(f"client-{identity}" for identity in range(CLIENTS))]:
            (tmp_path / name).mkdir()
        shows(found, other, to=lambda client: client == 0, attempts=(2, 3))
        gather, before = found.host._gather, []

        async def restarting(should_stop):
            if found.coordinator.attempts == 2:
                before.append(found.clients[0])
                found.kill(0)
                await until(lambda: not found.host.server.connected("client-0"))
                found.join(0)
                await until(lambda: found.host.server.connected("client-0"))
            await gather(should_stop)

        found.host._gather = restarting
        return found, await joined(found), before[0]

    found, partings, before = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert (found.survivors, found.aborted()) == ([7, 6, 6], [])
    for engine in (before, found.clients[0]):
        assert [text for text in said(engine) if "left out: client-1 has other keys" in text]
    assert (tmp_path / "client-0" / "peers.json").exists()


def test_without_stored_pins_a_client_takes_the_first_keys_that_it_sees(tmp_path):
    """The control of the test above: what is refused there is refused because of the pins."""
    pins = Pins()
    pins.meet(identity_of(Asked("client-1").certificate(), AUTHORITY.certificate_pem))

    async def scenario():
        for known, count in ((Pins(), 0), (pins, 1)):
            engine = federation(lambda name, known=known: known).client(0, "127.0.0.1:1")
            engine._meet(Identities(pack_ids([1]), [Asked("client-1").certificate()]))
            assert len(said(engine)) == count
            assert (1 in inside(engine.leaf)._identities) == (count == 0)

    quickly(scenario())


def test_a_renewed_certificate_is_taken_and_a_refused_one_is_replaced():
    async def scenario():
        engine, keys = federation().client(0, "127.0.0.1:1"), Asked("client-1")
        for proof, known in (
            (keys.certificate(5), True),
            (keys.certificate(30), True),
            (keys.certificate(2, LONG_AGO), False),
            (keys.certificate(40), True),
            (Asked("client-1").certificate(), False),
            (keys.certificate(41), True),
        ):
            engine._meet(Identities(pack_ids([1]), [proof]))
            assert (1 in inside(engine.leaf)._identities) == known

    quickly(scenario())


def test_a_coordinator_cannot_fill_the_log_or_take_a_clients_own_key_from_it():
    async def scenario():
        engine = federation().client(0, "127.0.0.1:1")
        own = dict(inside(engine.leaf)._identities)
        for number in range(40):
            then = LONG_AGO + timedelta(hours=6 * number)
            proof = Asked("client-1").certificate(1, then) if number % 2 else b"%d" % number
            engine._meet(
                Identities(pack_ids([0, 1, CLIENTS, 2**32 - 1]), [Asked("client-0").certificate(), proof, proof, b""])
            )
        assert inside(engine.leaf)._identities == own
        assert len(said(engine)) <= 2 * 3
        with pytest.raises(PeerError, match="1 certificates of 2 clients"):
            engine._meet(Identities(pack_ids([1, 2]), [b""]))

    quickly(scenario())


# --- the coordinator


def test_an_expired_client_takes_part_in_no_round_and_the_others_do():
    """Its certificate is really over, and it never gets in."""

    async def scenario():
        found = federation(round={"start_fl_job_time_window": 1000})
        found.certified[1] = Asked("client-1").credentials(2, LONG_AGO)
        async with found.serve():
            for identity in (0, 2, 3, 4, 5, 6):
                found.join(identity)
            with pytest.raises(PeerError, match="expired"):
                await found.client(1).run()
            return found, await found.done()

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [6, 6]


def test_a_certificate_that_expires_while_a_client_is_connected(monkeypatch):
    """Its connection ends before the next round, which has the others; with a renewed certificate it is back."""
    later = timedelta()
    monkeypatch.setattr(
        server_module,
        "peer_identity",
        lambda seen, authority: peer_identity(seen, authority, datetime.now(UTC) + later),
    )

    async def scenario():
        nonlocal later
        found = federation(rounds=3)
        keys = Asked("client-1")
        found.certified[1] = keys.credentials(10)
        server = inside(found.host.server)
        end, gather = server.end_expired, found.host._gather
        server.end_expired = lambda: end(datetime.now(UTC) + later)

        async def at_its_time(should_stop):
            nonlocal later
            attempts = found.coordinator.attempts
            if attempts == 1:
                later = timedelta(days=20)  # on the coordinator's clock
                waiting.update(found.running)
                del found.running[1]  # nobody waits for it
            await gather(should_stop)
            if attempts == 2 and 1 not in found.running:
                joining = inside(found.clients[1].connection)
                joining._about = replace(joining._about, credentials=keys.credentials(50))
                found.running[1] = waiting[1]
                await until(lambda: found.host.server.connected("client-1"))

        waiting = {}
        found.host._gather = at_its_time
        return found, await joined(found)

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [7, 6, 7]
    assert found.aborted() == []
    assert found.refused()[1].startswith("the certificate of client-1 expired on")
    assert any("coordinator refused: the certificate of client-1 expired on" in text for text in said(found.clients[1]))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_second_process_with_other_keys_does_not_take_a_clients_place(tmp_path, restarted):
    """The authority signed a second certificate for client 1. The coordinator refuses it, also after a restart."""

    async def scenario():
        for name in ["coordinator", *(f"client-{identity}" for identity in range(CLIENTS))]:
            (tmp_path / name).mkdir()
        found = federation(lambda name: pins_in(tmp_path / name), rounds=1)
        for identity in range(CLIENTS):
            found.credentials(identity)
        if restarted:
            before = found
            await joined(before)
            found = federation(lambda name: pins_in(tmp_path / name), rounds=1)
            found.certified = before.certified
        async with found.serve():
            if not restarted:
                found.join(1)
                await until(lambda: found.host.server.connected("client-1"))
            first, found.certified[1] = found.certified[1], Asked("client-1").credentials()
            with pytest.raises(PeerError, match="coordinator refused: client-1 has other keys"):
                await found.client(1).run()
            found.certified[1] = first
            for identity in set(range(CLIENTS)) - found.running.keys():
                found.join(identity)
            return found, await found.done()

    found, partings = quickly(scenario())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert found.survivors == [7]


def test_a_hello_that_is_refused_pins_nothing():
    async def scenario():
        found = federation(rounds=1)
        async with found.serve():
            found.certified[1] = Asked("client-1").credentials()
            stranger = found.client(1)
            joining = inside(stranger.connection)
            joining._about = replace(joining._about, shared=b'{"rounds": 7}')
            with pytest.raises(PeerError, match="the files differ"):
                await stranger.run()
            del found.certified[1]
            for identity in range(CLIENTS):
                found.join(identity)
            return await found.done()

    assert {parting.status for parting in quickly(scenario()).values()} == {"done"}


# --- parties in lock step


def test_a_spoke_refuses_other_keys_that_the_hub_relays():
    own = certified(AUTHORITY, "b")
    spoke = Spoke("b", "a", ["c"], "127.0.0.1:1", credentials=own)
    first, other = Asked("c"), Asked("c").certificate()
    assert spoke._whose("c")(first.certificate(5))[0] == "c"
    assert spoke._whose("c")(first.certificate(50))[0] == "c"
    with pytest.raises(PeerError, match="c has other keys"):
        spoke._whose("c")(other)


def test_a_hub_waits_for_a_party_whose_certificate_expired_before_all_were_there():
    """On the hub's clock that of `c` is over: it is not introduced, and the others do not end. Later all meet."""
    later = timedelta(days=20)
    kept = Kept()
    with Hub("a", ["b", "c"], "127.0.0.1:0", credentials=certified(AUTHORITY, "a"), patience=HANGS, sink=kept) as hub:
        server = inside(hub._server)
        end = server.end_expired
        server.end_expired = lambda: end(datetime.now(UTC) + later)
        met = {}

        def live(name, other, days):
            own = Asked(name).credentials(days)
            with Spoke(name, "a", [other], f"127.0.0.1:{hub.port}", credentials=own, patience=HANGS) as spoke:
                met[name] = spoke.meet().keys()

        threads = [threading.Thread(target=live, args=case) for case in (("b", "c", 100), ("c", "b", 10))]
        for thread in threads:
            thread.start()
        while not any("expired" in event.text for event in kept.events if isinstance(event, Noted)):
            with suppress(PeerAway):
                hub.meet(0.05)
        assert met == {}
        later = timedelta()
        assert hub.meet().keys() == {"b", "c"}
        hub.close()
        for thread in threads:
            thread.join(HANGS)
    assert met == {"b": {"a", "c"}, "c": {"a", "b"}}
    told = [event.text for event in kept.events if isinstance(event, Noted)]
    assert any(text.startswith("the certificate of c expired on") for text in told)
