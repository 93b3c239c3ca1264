"""The exact sum of the survivors, or a clean abort: every stage, graph, ring and number of shards."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tacit.errors import PeerError
from tacit.secagg.client import Client
from tacit.secagg.client import State as ClientState
from tacit.secagg.messages import Abort, Advertise, Agreed, Masked, Reveal, Shares
from tacit.secagg.server import Server, State
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings
from tests.secagg.federation import MODEL, STAGES, Federation, federation, vectors_for

COMPLETE = {"clients": 9, "columns": 40, "mode": "active", "share_secrets_ratio": 2 / 3}
SPARSE = {"clients": 30, "columns": 40, "mode": "semi_honest", "graph": "sparse", "corrupt": 0.1, "drop": 0.2}


def survivor_counts(config: Settings) -> tuple[int, ...]:
    fewest = config.topology(config.clients).minimum
    return (fewest - 1, fewest, fewest + 1, config.clients)


def expected_outcome(config: Settings, stage: type, when: str, staying: int) -> bool:
    """Whether the round succeeds, from the rules of the protocol alone."""
    stages = [s for s in STAGES if s is not Agreed or config.mode == "active"]
    topology = config.topology(config.clients)
    needed = {
        Advertise: config.sharing,
        Shares: max(config.sharing, topology.minimum),
        Masked: topology.minimum,
        Agreed: topology.threshold,
        Reveal: topology.threshold if topology.complete else topology.minimum,
    }
    first = stages.index(stage) + (when == "after")
    return all(staying >= needed[s] for s in stages[first:])


MATRIX = [
    (kind, bits, stage, when, rank, shards)
    for kind, bits, stage, when, rank, shards in itertools.product(
        ("complete", "sparse"), (15, 32, 53, 64), STAGES, ("before", "after"), range(4), (1, 3)
    )
    if not (kind == "sparse" and stage is Agreed)
]


@pytest.mark.parametrize(
    ("kind", "bits", "stage", "when", "rank", "shards"),
    [
        pytest.param(
            *case,
            marks=() if i % 7 == 0 else pytest.mark.slow,
            id="-".join(str(getattr(x, "__name__", x)) for x in case),
        )
        for i, case in enumerate(MATRIX)
    ],
)
def test_the_exact_sum_or_a_clean_abort(kind, bits, stage, when, rank, shards):
    config = Settings(**(COMPLETE if kind == "complete" else SPARSE), modulus_bits=bits)
    staying = survivor_counts(config)[rank]
    vectors = vectors_for(config)
    leaving = list(vectors)[: config.clients - staying]
    option = {f"vanish_{when}": dict.fromkeys(leaving, stage)}
    fed = Federation(config, vectors, **option)
    server = fed.run()
    assert not fed.client_errors
    assert not fed.server_errors
    succeeds = expected_outcome(config, stage, when, staying)
    if kind == "sparse" and (stage, when) in ((Reveal, "before"), (Masked, "after")) and not succeeds:
        succeeds = server.state is State.READY  # with one fewer than assumed every secret may still have its shares
    assert server.state is (State.READY if succeeds else State.ABORTED), server.reason
    if succeeds:
        result = server.finish(shards=shards)
        assert result.words.tolist() == fed.expected()
        assert set(result.survivors) == fed.uploaded
        assert set(vectors) - set(leaving) <= fed.uploaded
    else:
        assert server.reason
        with pytest.raises(ValueError, match="READY"):
            server.finish()
        assert server._sum is None
        assert server._plan is None
        for identity, client in fed.clients.items():
            assert client.state in (ClientState.ABORTED, ClientState.DONE) or identity in fed.gone


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), mode=st.sampled_from(["active", "semi_honest"]))
def test_any_schedule_ends_in_the_exact_sum_or_an_abort(data, mode):
    """Messages are lost, repeated, delayed beyond their stage and overtake each other."""
    config = Settings(6, 5, mode=mode, share_secrets_ratio=0.84)
    random = data.draw(st.randoms(use_true_random=False))
    loss = data.draw(st.sampled_from([0.0, 0.02, 0.1]))

    def delay() -> list[float]:
        copies = 0 if random.random() < loss else random.choice([1, 1, 1, 2, 3])
        return [random.choice([0.0, 0.1, 3.0, 9.0, 15.0]) * random.random() for _ in range(copies)]

    fed = federation(config, delay=delay)
    server = fed.run()
    assert not fed.client_errors
    assert not fed.server_errors
    if server.state is State.READY:
        result = server.finish()
        assert result.words.tolist() == fed.expected(result.survivors)
        assert len(result.survivors) >= config.topology(6).minimum
    else:
        assert server.state is State.ABORTED


@pytest.mark.slow
@settings(max_examples=1500, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), mode=st.sampled_from(["active", "semi_honest"]))
def test_many_schedules(data, mode):
    test_any_schedule_ends_in_the_exact_sum_or_an_abort.hypothesis.inner_test(data, mode)  # type: ignore[attr-defined]


@given(
    values=st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3), min_size=5, max_size=5),
    dropped=st.sets(st.integers(0, 4), max_size=2),
)
@settings(max_examples=20)
def test_the_sum_is_exact_for_whoever_survives(values, dropped):
    config = Settings(5, 3, share_secrets_ratio=1.0, colluders=0)
    vectors = {i: np.array(v, dtype=np.uint32) for i, v in enumerate(values)}
    fed = Federation(config, vectors, vanish_before=dict.fromkeys(dropped, Masked))
    kept = [v for i, v in enumerate(values) if i not in dropped]
    assert fed.aggregate().words.tolist() == [sum(column) % 2**32 for column in zip(*kept, strict=True)]


def test_two_dropped_neighbours_and_two_survivors():
    """Pairs of dropped clients left no mask; mixed pairs did."""
    config = Settings(8, 11, mode="semi_honest", graph="complete", share_secrets_ratio=1.0)
    vectors = vectors_for(config)
    fed = Federation(config, vectors, vanish_before=dict.fromkeys(list(vectors)[:3], Masked))
    assert fed.aggregate().words.tolist() == fed.expected()


def test_neighbours_on_the_circle_share_revealers_at_other_points():
    """Nobody lies, so that no hash is compared, however alike the lists of revealers are."""
    config = Settings(60, 2, mode="semi_honest", graph="sparse", corrupt=0.1, drop=0.3)
    vectors = vectors_for(config)
    fed = Federation(config, vectors, vanish_before=dict.fromkeys(list(vectors)[:18], Masked))
    fed.run()
    assert fed.server._shares._mismatched == fed.server.blamed == fed.server.disputes == {}
    assert fed.server.finish().words.tolist() == fed.expected()


def test_a_tick_before_the_window_ends_changes_nothing():
    fed = federation(Settings(5, 3))
    fed.server.start(0.0)
    assert fed.server.tick(9.9) == []
    assert fed.server.state is State.ADVERTISING
    assert {identity for identity, _ in fed.server.tick(10.0)} == set(fed.clients)
    assert fed.server.state is State.ABORTED
    assert "0 clients advertised, 4 are needed" in fed.server.reason


def test_a_silent_server_is_given_up():
    fed = federation(Settings(5, 3))
    client = next(iter(fed.clients.values()))
    client.start(0.0)
    assert client.tick(40.0) == []
    (abort,) = client.tick(40.1)
    assert "heard nothing after ADVERTISED" in abort.reason
    assert client.state is ClientState.ABORTED
    assert client.tick(99.0) == []


def test_a_client_that_says_it_leaves_is_not_waited_for():
    fed = federation(Settings(5, 3))
    leaver = next(iter(fed.clients))

    def leave(sender, message):
        return Abort("battery") if sender == leaver and isinstance(message, Masked) else message

    fed.to_server = leave
    result = fed.aggregate()
    assert leaver not in result.survivors
    assert fed.now == 0.0
    assert result.words.tolist() == fed.expected()


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@pytest.mark.parametrize("back", [False, True])
def test_a_client_that_leaves_after_its_upload_is_not_waited_for_and_may_come_back(mode, back):
    fed = federation(Settings(5, 3, mode=mode))
    leaver, *_, last = fed.clients
    fed.vanish_after = {} if back else {leaver: Masked}

    def leave(sender, message):
        if sender == last and isinstance(message, Masked):
            fed._send("server", leaver, Abort("stopped"))
        return message

    fed.to_server = leave
    result = fed.aggregate()
    assert leaver in result.survivors
    assert (fed.now, fed.server_errors) == (0.0, {})
    assert result.words.tolist() == fed.expected()


def test_ctrl_c_on_either_side_tells_the_other():
    fed = federation(Settings(5, 3))
    fed.server.start(0.0)
    told = fed.server.abort("stopped by hand")
    assert {identity for identity, _ in told} == set(fed.clients)
    client = fed.clients[told[0][0]]
    client.start(0.0)
    assert client.receive(told[0][1], 0.0) == []
    assert client.state is ClientState.ABORTED
    assert fed.server.abort("again") == []
    other = list(fed.clients.values())[1]
    other.start(0.0)
    assert other.abort("stopped")[0].reason == "stopped"
    assert other.abort("again") == []


def test_the_same_message_again_gets_the_same_answer_and_a_late_one_is_counted():
    fed = federation(Settings(5, 3, mode="semi_honest"), delay=lambda: [0.0, 0.0])
    fed.aggregate()
    assert not fed.client_errors
    assert not fed.server_errors
    assert fed.server.late > 0


def test_two_different_answers_in_one_stage_are_refused():
    fed = federation(Settings(5, 3, mode="semi_honest"))
    fed.server.start(0.0)
    identity = next(iter(fed.clients))
    (advert,) = fed.clients[identity].start(0.0)
    fed.server.receive(identity, advert, 0.0)
    assert fed.server.receive(identity, advert, 0.0) == []
    with pytest.raises(PeerError, match="two different Advertise"):
        fed.server.receive(identity, Advertise(identity, bytes(32), bytes([1]) * 32, b""), 0.0)


def test_bad_messages_cost_the_sender_its_place_and_never_the_round():
    config = Settings(9, 4, mode="semi_honest", share_secrets_ratio=0.6)
    fed = federation(config)
    bad = dict(zip(fed.clients, (Advertise, Shares, Masked, Reveal), strict=False))

    def spoil(sender, message):
        if bad.get(sender) is not type(message):
            return message
        match message:
            case Advertise():
                return Advertise(sender, message.sealing_key, message.sealing_key, b"")
            case Shares():
                return replace(message, sealed=message.sealed[:-1])
            case Masked():
                return Masked(message.session, sender, bytes(message.words) + b"1234")
            case Reveal():
                return Reveal(message.session, sender, message.ids, message.shares[:-4] + b"\xff\xff\xff\xff")

    fed.to_server = spoil
    result = fed.aggregate()
    assert set(fed.server_errors) == set(bad)
    assert result.words.tolist() == fed.expected()
    assert len(result.survivors) == 6


def test_messages_of_others_or_out_of_turn_are_refused():
    fed = federation(Settings(5, 3, mode="semi_honest"))
    fed.server.start(0.0)
    one, two, *_ = fed.clients
    (advert,) = fed.clients[one].start(0.0)
    with pytest.raises(PeerError, match=f"client {two} sent a message of client {one}"):
        fed.server.receive(two, advert, 0.0)
    with pytest.raises(PeerError, match="takes no part"):
        fed.server.receive(99_999, Advertise(99_999, bytes(32), bytes([1]) * 32, b""), 0.0)
    late = Reveal(bytes(32), one, b"", b"")  # of the round before, which was opened without it
    assert fed.server.receive(one, late, 0.0) == []
    fed.server.receive(one, advert, 0.0)
    for other in [identity for identity in fed.clients if identity != one]:
        fed.server.receive(other, fed.clients[other].start(0.0)[0], 0.0)
    assert fed.server.state is State.SHARING
    assert fed.server.receive(one, late, 0.0) == []
    with pytest.raises(PeerError, match="Masked is not expected in SHARING"):
        fed.server.receive(one, Masked(fed.server._session, one, b""), 0.0)
    assert fed.server.late == 0


def test_wrong_construction_is_the_callers_mistake():
    config = Settings(5, 3)
    context = Context(config, MODEL, 0)
    fed = federation(config)
    identities = {i: k.public for i, k in fed.keys.items()}
    one, two, *_ = fed.clients
    with pytest.raises(ValueError, match="3 words of 32 bits"):
        Client(context, one, np.zeros(4, np.uint32), key=fed.keys[one], identities=identities)
    with pytest.raises(ValueError, match="3 words of 32 bits"):
        Client(context, one, np.zeros(3, np.uint64), key=fed.keys[one], identities=identities)
    with pytest.raises(ValueError, match="needs a signing key"):
        Client(context, one, np.zeros(3, np.uint32))
    with pytest.raises(ValueError, match=f"not that of client {two}"):
        Client(context, two, np.zeros(3, np.uint32), key=fed.keys[one], identities=identities)
    with pytest.raises(ValueError, match="5 clients, got 4"):
        Server(context, [1, 2, 3, 4], identities=identities)
    with pytest.raises(ValueError, match="needs the identities"):
        Server(context, fed.clients)
    with pytest.raises(ValueError, match="32 bytes, got 3"):
        Context(config, b"abc", 0)
    for number in (-1, 2**70):
        with pytest.raises(ValueError, match="round must be at least 0"):
            Context(config, MODEL, number)
    loose = Settings(5, 3, mode="semi_honest")
    for vector in (np.zeros(3, np.float32), np.zeros(3, np.int32), np.zeros(3, ">u4")):
        with pytest.raises(ValueError, match="3 words of 32 bits"):
            Client(Context(loose, MODEL, 0), one, vector)
    with pytest.raises(ValueError, match="both or neither"):
        Client(Context(loose, MODEL, 0), one, np.zeros(3, np.uint32), identities=identities)
    for number in (-1, 2**40):
        with pytest.raises(ValueError, match="client's number must be"):
            Client(Context(loose, MODEL, 0), number, np.zeros(3, np.uint32))
    fed.clients[one].start(0.0)
    with pytest.raises(ValueError, match="starts once"):
        fed.clients[one].start(0.0)
