"""Updates under masks: what a gathering comes to, whether its sum counts as spent, and when a client is done."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.events import Kept
from tacit.kinds.horizontal.answered import Answers
from tacit.kinds.horizontal.carrier import Failed, Host, Mean, Opening, carrier_of
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.masked import inside_of
from tacit.kinds.horizontal.messages import Inference, Outgoing, Update, Work
from tacit.kinds.horizontal.sums import Part, Together
from tacit.kinds.horizontal.tally import Tally
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Abort, Advertise, Masked, Reveal, Shares
from tacit.secagg.unmask import unmask_ranges
from tests.inside import inside
from tests.kinds.horizontal.federations import Inferring, Numbers, settings_for

LAYOUT = Layout.of(Numbers().model())
LATER = 1e6
MASKS = {"encrypt_type": "PW_ENCRYPT"}


class Aggregation:
    """One round of real clients and a gathering, a stage at a time."""

    def __init__(self, **keys) -> None:
        self.settings = settings_for(**{"clients": 6, "encrypt": MASKS} | keys)
        self.answers = Answers(self.settings)
        carrier = carrier_of(self.settings, LAYOUT)
        self.tally = Tally(0, Kept(), lambda: 0.0)
        opening = Opening(0, np.zeros(5), carrier.first_clip, range(6), frozenset())
        self.gathering = carrier.gathering(opening, Host(None, unmask_ranges, self.answers), self.tally, 0.0)
        self.clients = [Client(self.settings, i, Numbers().fit, LAYOUT, carrier=carrier) for i in range(6)]
        self.outgoing = [(i, Work(0, np.zeros(5))) for i in range(6)]

    def step(self, silent=()) -> list[type]:
        """Hand all messages over; the kinds of those that came back."""
        sent, self.outgoing = self.outgoing, []
        answers = [(i, answer) for i, message in sent for answer in self.clients[i].receive(message, 0.0)]
        for i, answer in answers:
            if i not in silent and self.gathering.over is None:
                self.outgoing += self.gathering.receive(i, answer, 0.0)
        if not self.outgoing and self.gathering.over is None:
            self.outgoing = self.gathering.tick(LATER)
        return sorted({type(answer) for _, answer in answers}, key=lambda kind: kind.__name__)


def test_a_whole_round_opens_the_weighted_mean():
    found = Aggregation()
    stages = []
    while found.gathering.over is None:
        stages += found.step()
    assert stages == [Advertise, Shares, Masked, Reveal]
    assert isinstance(found.gathering.over, Mean)
    assert found.gathering.over.survivors == 6
    weights = np.arange(1, 7)
    assert found.gathering.over.update == pytest.approx(np.full(5, (weights * np.arange(6)).sum() / 21), abs=1e-5)
    told = ["advertise keys", "share secrets", "train and upload", "reveal shares", "open the sum"]
    assert list(found.tally.stages) == told
    assert found.tally.up.keys() == {"Advertise", "Shares", "Masked", "Reveal"}
    assert {"Roster", "Inbox", "Survivors"} <= found.tally.down.keys()


@pytest.mark.parametrize(("stage", "opened"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_sum_counts_as_spent_once_shares_were_asked_for(stage, opened):
    found = Aggregation()
    for _ in range(stage):
        found.step()
    found.step(silent=range(1, 6))
    assert isinstance(found.gathering.over, Failed)
    assert found.gathering.over.opened == opened


def test_a_client_is_done_when_it_has_revealed_its_shares():
    found = Aggregation()
    idle = []
    while found.gathering.over is None:
        found.step()
        idle.append([client.idle for client in found.clients])
    assert idle == [[False] * 6, [False] * 6, [False] * 6, [True] * 6]


def test_a_client_whose_round_was_aborted_is_done():
    found = Aggregation()
    found.step()
    found.clients[0].receive(Abort("it ends"), 0.0)
    assert found.clients[0].idle


def test_an_upload_is_counted_when_it_leaves_and_not_before():
    found = Aggregation()
    for sums in (0, 0, 1, 1):
        found.step()
        assert {client.state()["sums"] for client in found.clients} == {sums}


def test_who_leaves_before_it_answered_has_declined_the_model():
    found = Aggregation(round={"repeats": 0})
    found.gathering.receive(2, Abort("not again"), 0.0)
    found.gathering.receive(9, Abort("a stranger"), 0.0)
    assert found.answers.willing(None) == [0, 1, 3, 4, 5]
    found.step(silent={2})
    found.gathering.receive(3, Abort("later"), 0.0)
    assert found.answers.willing(None) == [0, 1, 3, 4, 5]


def test_updates_and_bare_sums_do_not_belong_here():
    found = Aggregation()
    with pytest.raises(PeerError, match="out of turn"):
        found.gathering.receive(1, Update(0, 1, np.zeros(5), 1), 0.0)
    with pytest.raises(ValueError, match="a secure aggregation is under way"):
        found.gathering.receive_together(Together(0, (1,), Part(np.zeros(5), 1.0, 1.0, 1)), 0.0)
    found.gathering.left(1)
    assert found.gathering.over is None


def test_inference_vectors_leave_with_the_masked_update():
    task = Inferring()
    layout = Layout.of(task.model())
    settings = settings_for(encrypt=MASKS, unsupervised={"cluster_client_num": 2})
    clients = [Client(settings, i, task.fit, layout, infers=task) for i in range(12)]
    carrier = carrier_of(settings, layout)
    model = layout.flatten(task.model())
    opening = Opening(0, model, 1.0, range(12), frozenset())
    host = Host(None, unmask_ranges, Answers(settings))
    gathering = carrier.gathering(opening, host, Tally(0, Kept(), lambda: 0.0), 0.0)
    outgoing: Outgoing = [(i, Work(0, model)) for i in range(12)]
    kinds = []
    for _ in range(3):
        answers = [(i, each) for i, message in outgoing for each in clients[i].receive(message, 0.0)]
        kinds.append([type(each) for sender, each in answers if sender == 0])
        secure = [(i, each) for i, each in answers if not isinstance(each, Inference)]
        outgoing = [told for i, each in secure for told in gathering.receive(i, each, 0.0)]
    assert kinds == [[Advertise], [Shares], [Inference, Masked]]


def test_what_travels_alone_has_nothing_inside_masks():
    with pytest.raises(ValueError, match="DP_ENCRYPT has no masks"):
        inside_of(settings_for(encrypt={"encrypt_type": "DP_ENCRYPT"}), 5)


def test_keys_of_clients_beyond_the_file_are_not_known():
    """Certificates of the same authority may be of another federation's clients."""
    settings = settings_for(clients=6, encrypt=MASKS | {"mode": "active"})
    keys = {i: SigningKey.generate() for i in range(7)}
    public = {i: key.public for i, key in keys.items()}
    client = Client(settings, 1, Numbers().fit, LAYOUT, key=keys[1], identities=public)
    client.receive(Work(0, np.zeros(5)), 0.0)
    assert inside(client._round)._secure._identities.keys() == set(range(6))
