"""A federation that an operator pauses: what its coordinator and its clients do, in one event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tacit.events import Paused, RoundFinished, RoundStarted, Unpaused
from tacit.kinds.horizontal.messages import Work
from tacit.net import star_host
from tacit.net import transport as net_transport
from tacit.net.grpc import Grpc, connection
from tacit.net.handshake import Hello, known
from tacit.net.pausing import Pausing, State
from tacit.secagg.messages import Inbox, Roster, Survivors
from tests.kinds.horizontal.federations import settings_for
from tests.net.loopback import Federation, halting, over_each_transport, quickly, until
from tests.net.memory_transport import MemoryTransport

ROUNDS = 3


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(connection, "_LONGEST_PAUSE", 0.5)
    monkeypatch.setattr(star_host, "_FAREWELL", 1.5)


def federation(transport, clients=3, pausing=None, **keys):
    keys.setdefault("encrypt", {"encrypt_type": "NOT_ENCRYPT"})
    made = Federation(settings_for(clients=clients, rounds=ROUNDS, **keys), transport=transport())
    made.host._pausing = pausing or Pausing()
    return made


def kinds(events, *which):
    return [type(event) for event in events if isinstance(event, which)]


def ask_in_round(fed, number):
    """Ask for a pause when a frame of that round comes in, so that the round is under way on any machine."""
    receive = fed.star.receive

    def asking(client, frame, now):
        if fed.star.begun == number and not fed.host._pausing.asked:
            fed.host._pausing.ask()
        return receive(client, frame, now)

    fed.star.receive = asking


@over_each_transport
def test_no_round_begins_during_a_pause_and_all_of_them_after_it(transport):
    async def run():
        fed = federation(transport)
        pausing = fed.host._pausing
        ask_in_round(fed, 2)
        async with fed.serve():
            for client in range(3):
                fed.join(client)
            await until(lambda: pausing.paused)
            begun = fed.star.begun
            await until(lambda: all(Paused in kinds(fed.told(client), Paused) for client in range(3)))
            await asyncio.sleep(0.3)
            assert (fed.star.begun, fed.star.collecting) == (begun, False)
            pausing.end()
            return fed, await fed.done()

    fed, partings = quickly(run())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert kinds(fed.kept.events, Paused, Unpaused) == [Paused, Unpaused]
    assert len(fed.finished()) == ROUNDS
    assert not fed.aborted()
    for client in range(3):
        assert kinds(fed.told(client), Paused, Unpaused) == [Paused, Unpaused]
    assert fed.host._pausing.state is State.RUNNING


# In which a round waits for a single client. Once survivors agree, enough others reveal what opens the sum.
STAGES = {"work": Work, "roster": Roster, "inbox": Inbox, "survivors": Survivors}


@pytest.mark.parametrize(
    "stage",
    [name if name in ("work", "survivors") else pytest.param(name, marks=pytest.mark.slow) for name in STAGES],
)
def test_a_pause_in_any_stage_begins_after_the_round(stage):
    """A client halts in that stage of round 2 and dies there; the pause is asked for while the round waits for it."""
    encrypt = {"encrypt_type": "PW_ENCRYPT", "mode": "active", "cipher_time_window": 10_000}
    times = {"start_fl_job_time_window": 20_000, "update_model_time_window": 10_000}

    async def run():
        fed = federation(MemoryTransport, clients=6, encrypt=encrypt, round=times, network={"lost_after": 0.5})
        pausing, reached = fed.host._pausing, asyncio.Event()
        async with fed.serve():
            for client in range(6):
                guest = fed.join(client)
                if client == 3:
                    halting(guest, STAGES[stage], reached)
            await reached.wait()
            assert fed.star.collecting
            assert fed.star.stage
            pausing.ask()
            await asyncio.sleep(0.2)
            assert (pausing.state, fed.star.collecting) == (State.ASKED, True)
            fed.kill(3)
            await until(lambda: pausing.paused)
            assert not fed.star.collecting
            assert not fed.star.stage
            pausing.end()
            await fed.done()
            return fed

    fed = quickly(run())
    order = kinds(fed.kept.events, RoundStarted, RoundFinished, Paused, Unpaused)
    a_round = [RoundStarted, RoundFinished]
    assert order == [*a_round, *a_round, Paused, Unpaused, *a_round]


@over_each_transport
def test_a_coordinator_that_starts_paused_and_clients_that_join_then(transport):
    """As after a kill: the pause was stored. The window for clients begins when it ends."""

    async def run():
        fed = federation(transport, pausing=Pausing(True), round={"start_fl_job_time_window": 3000})
        pausing = fed.host._pausing
        async with fed.serve():
            await until(lambda: pausing.paused)
            fed.join(0)
            await until(lambda: kinds(fed.told(0), Paused))
            fed._time += 10_000.0  # of the coordinator's clock: far beyond the window
            await asyncio.sleep(0.2)
            assert not fed.serving.done()
            pausing.end()
            await until(lambda: kinds(fed.kept.events, Unpaused))
            await asyncio.sleep(0.3)
            assert not fed.serving.done()
            fed.join(1)
            fed.join(2)
            return fed, await fed.done()

    fed, partings = quickly(run())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert len(fed.finished()) == ROUNDS


@over_each_transport
def test_a_stop_during_a_pause_stops_and_the_pause_stays(transport):
    async def run():
        fed = federation(transport, pausing=Pausing(True))
        async with fed.serve():
            await until(lambda: fed.host._pausing.paused)
            fed.stopping = True
            with pytest.raises(KeyboardInterrupt):
                await fed.serving
            assert fed.host._pausing.asked

    with suppress(KeyboardInterrupt):  # which reaches the loop too, as it should
        quickly(run())


def test_a_pause_in_the_last_round_is_one_that_nothing_is_left_for():
    async def run():
        fed = federation(MemoryTransport)
        ask_in_round(fed, ROUNDS)
        async with fed.serve():
            for client in range(3):
                fed.join(client)
            return fed, await fed.done()

    fed, partings = quickly(run())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert not kinds(fed.kept.events, Paused)
    assert not fed.host._pausing.asked  # a longer run that is resumed does not begin paused


@pytest.mark.parametrize("transport", [Grpc, MemoryTransport], ids=["grpc", "memory"])
def test_a_client_of_an_earlier_release_is_told_nothing_and_takes_part(transport, monkeypatch):
    """It cannot read the frame: it would take it for one of the round, and end."""
    monkeypatch.setattr(net_transport, "CAPABILITIES", ())

    async def run():
        fed = federation(transport)
        ask_in_round(fed, 2)
        async with fed.serve():
            for client in range(3):
                fed.join(client)
            await until(lambda: fed.host._pausing.paused)
            await asyncio.sleep(0.2)
            fed.host._pausing.end()
            return fed, await fed.done()

    fed, partings = quickly(run())
    assert {parting.status for parting in partings.values()} == {"done"}
    assert [kinds(fed.told(client), Paused, Unpaused) for client in range(3)] == [[], [], []]


@over_each_transport
def test_a_client_that_ignores_the_pause_changes_nothing(transport):
    """It sends what it sent in the last round again, and garbage; others and the model are none the worse."""

    async def run():
        fed = federation(transport)
        pausing, sent = fed.host._pausing, []
        async with fed.serve():
            hostile = fed.join(0)
            send = hostile.connection.send
            hostile.connection.send = lambda frame: (sent.append(frame), send(frame))
            fed.join(1)
            fed.join(2)
            await until(fed.finished)
            pausing.ask()
            await until(lambda: pausing.paused)
            model, begun = fed.coordinator._model.copy(), fed.star.begun
            for _ in range(20):
                send(sent[-1])
            await asyncio.sleep(0.3)
            assert (fed.coordinator._model == model).all()
            assert fed.star.begun == begun
            assert pausing.paused
            pausing.end()
            await until(lambda: fed.serving.done())
            return fed

    fed = quickly(run())
    assert len(fed.finished()) == ROUNDS
    assert all(event.survivors >= 2 for event in fed.finished())


def test_only_names_that_there_are_are_known():
    def said(*names):
        return known(Hello("client-0", bytes(16), b"", 0, b"{}", b"", capabilities=names))

    assert said("pause") == said("x", "pause", "later") == {"pause"}
    assert said() == said("pauses") == frozenset()


def test_the_figures_of_a_coordinator():
    async def run():
        fed = federation(MemoryTransport)
        async with fed.serve():
            for client in range(2):
                fed.join(client)
            await until(lambda: len(fed.host._there()) == 2)
            figures = fed.host._figures()
            assert (figures.connected, figures.needed, figures.stage) == (2, fed.star.terms.least, "")
            fed.join(2)
            await fed.serving
            assert fed.host._figures().traffic.received > 3 * ROUNDS * 650 * 4
            assert fed.host._figures().traffic.sent > 3 * ROUNDS * 650 * 4

    quickly(run())
