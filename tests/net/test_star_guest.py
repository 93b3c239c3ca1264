"""What a client over a network tells its own site: what it sent, what it paid, what it refused."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from tacit.config.local import Local
from tacit.errors import BudgetError, PeerError
from tacit.events import Answered, AnswerRefused, EndHeard, Kept, Paused, Unpaused
from tacit.kinds.horizontal.frames import FramedClient, to_frame
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.task import Fitted
from tacit.net.handshake import Parting, Pause
from tacit.net.site import Site
from tacit.net.star_guest import StarGuest
from tacit.wire import encode
from tests.inside import inside
from tests.kinds.horizontal.federations import Inferring, settings_for

WANTED = {"cluster_client_num": 6, "vectors": 4}


def engine(task, keep=lambda number, model: None, **keys) -> tuple[StarGuest, Kept, list[bytes]]:
    """A client whose connection is a list."""
    kept, sent = Kept(), []
    transport = SimpleNamespace(connection=lambda *what: SimpleNamespace(send=sent.append))
    leaf = FramedClient(Prepared.of(settings_for(**keys), task), 3, None, keep=keep)
    site = Site("127.0.0.1:1", "127.0.0.1:1", None, Local(), transport=transport)
    return StarGuest(leaf, site, kept), kept, sent


def asked(made: StarGuest, *works: Work) -> BaseException | None:
    """Send it models; what ended it, if anything did."""

    async def all_of_them() -> None:
        for work in works:
            await made.arrived(to_frame(work))

    asyncio.run(all_of_them())
    return made._failed


def work(number: int, value: float = 0.0) -> Work:
    return Work(number, np.full(650, value, np.float32))


def test_it_tells_every_message_with_its_bytes_and_what_it_paid():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1, "privacy_eval_type": "LAPLACE", "laplace_eval_eps": 0.25}
    made, kept, sent = engine(Inferring(), encrypt=encrypt, unsupervised=WANTED)
    assert asked(made, work(0), work(1)) is None
    first, second = kept.events
    assert isinstance(first, Answered)
    assert (first.client, first.round, second.round) == (3, 0, 1)
    assert first.sent == {"Inference": len(sent[0]), "Update": len(sent[1])}
    (spent,) = inside(made.leaf).client.spent()
    assert second.epsilons == {"updates and inference vectors": spent.epsilon}
    assert second.deltas == {"updates and inference vectors": 1e-5}
    assert 0 < first.epsilons["updates and inference vectors"] < spent.epsilon


def test_a_spent_budget_is_told_and_the_model_kept_all_the_same():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0}
    models = []

    def keep(number, model):
        models.append(float(model[0]))

    made, kept, sent = engine(Inferring(), keep, encrypt=encrypt, budget={"epsilon": 1.2})
    error = asked(made, work(0, 1.0), work(1, 2.0))
    assert isinstance(error, BudgetError)
    refused = kept.events[-1]
    assert isinstance(refused, AnswerRefused)
    assert (refused.client, refused.round, refused.why) == (3, 1, "budget")
    assert "above the budget: this client answers no more" in refused.reason
    assert models == [1.0, 2.0]
    assert len(sent) == 2  # its update, and its farewell


def test_a_request_that_it_does_not_answer_is_told():
    made, kept, _ = engine(Inferring())
    error = asked(made, work(0), work(0))
    assert isinstance(error, PeerError)
    assert (kept.events[-1].why, kept.events[-1].reason) == ("request", str(error))


class Broken(Inferring):
    def __init__(self, fit):
        super().__init__()
        self._fit = fit

    def fit(self, client, model, work):
        return self._fit(client, model, work)


def nan(client, model, work):
    return Fitted({name: np.full_like(array, np.nan) for name, array in model.items()}, 3)


def secret(client, model, work):
    raise KeyError("the record of Ada Lovelace")


@pytest.mark.parametrize(
    ("fit", "words"), [(nan, "its training gave NaN or infinite numbers"), (secret, "its training raised KeyError")]
)
def test_under_noise_a_failed_training_is_told_at_home_only(fit, words):
    made, kept, sent = engine(Broken(fit), encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0})
    assert asked(made, work(0)) is None
    answered, refused = kept.events
    assert list(answered.sent) == ["Update"]
    assert len(sent) == 1
    assert (refused.why, refused.reason) == ("training", f"{words}: noise around a zero update was sent")


def test_without_noise_an_unusable_update_is_told_and_the_round_left():
    def none(client, model, work):
        return Fitted(model, 0)

    made, kept, _ = engine(Broken(none), encrypt={})
    assert asked(made, work(0)) is None
    refused, answered = kept.events
    assert (refused.why, refused.reason) == ("update", "its training used no samples")
    assert list(answered.sent) == ["Abort"]
    assert answered.epsilons == {}


@pytest.mark.parametrize("status", ["done", "failed", "budget reached"])
def test_the_end_is_written_down_before_the_coordinator_hears_that_it_is_known(status):
    """What is confirmed leaves at the next turn of the event loop: there must be none in between."""
    made, kept, _ = engine(Inferring())
    arrives = made.arrived(encode(Parting(status, "all 3 rounds")))
    with pytest.raises(StopIteration):
        arrives.send(None)
    assert kept.events == [EndHeard(3, status, "all 3 rounds")]


def test_a_coordinator_that_comes_back_has_not_ended_the_run():
    made, kept, _ = engine(Inferring())
    made._missing = lambda: None
    with pytest.raises(StopIteration):
        made.arrived(encode(Parting("stopped", "by hand"))).send(None)
    assert not [event for event in kept.events if isinstance(event, EndHeard)]


def patience_of(frames, seconds=5.0, reconnects=False):
    """For how long a client counts its coordinator as away, that it lost after these frames."""
    made, kept, _ = engine(Inferring(), encrypt={"encrypt_type": "NOT_ENCRYPT"})

    async def heard() -> tuple[float, list[type]]:
        clock = asyncio.get_running_loop().time
        await made.connected(False)
        for frame in frames:
            await made.arrived(frame)
        await made.waiting("it does not answer")
        if reconnects:
            await made.connected(False)
            await made.waiting("it does not answer")
        made._away(clock())
        away = made._away(clock() + seconds)
        return away, [type(event) for event in kept.events if isinstance(event, Paused | Unpaused)]

    assert made._failed is None
    return asyncio.run(heard())


BEGINS, ENDS = encode(Pause(True)), encode(Pause(False))


def test_patience_counts_while_a_coordinator_is_away_and_not_while_it_is_paused():
    away, told = patience_of([])
    assert 5.0 <= away < 6.0
    assert told == []
    for frames in ([BEGINS], [BEGINS, BEGINS], [ENDS, BEGINS], [BEGINS, encode(Parting("stopped", "by hand"))]):
        away, told = patience_of(frames)
        assert away == 0.0
        assert told == [Paused]


@pytest.mark.parametrize("after", [[ENDS], [ENDS, ENDS]])
def test_patience_counts_again_once_the_pause_is_over(after):
    away, told = patience_of([BEGINS, *after])
    assert 5.0 <= away < 6.0
    assert told == [Paused, Unpaused]


def test_another_process_of_the_coordinator_has_to_say_that_it_is_paused():
    away, told = patience_of([BEGINS], reconnects=True)
    assert 5.0 <= away < 6.0
    assert told == [Paused]  # it is not known that it is over


def test_a_model_ends_a_pause():
    """A coordinator of an earlier release took over: it says nothing of pauses."""
    _, told = patience_of([BEGINS, to_frame(work(0))])
    assert told == [Paused, Unpaused]
