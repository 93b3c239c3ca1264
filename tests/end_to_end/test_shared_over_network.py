"""The party that all others connect to finds nothing in the messages of a training on shares that it passes on."""

from __future__ import annotations

import threading

import numpy as np

from tacit.kinds.vertical_logistic.shared.messages import Deal, Revealed, Seeds
from tacit.net.grpc import Grpc
from tacit.net.hub import Hub
from tacit.net.spoke import Spoke
from tests.kinds.vertical_logistic.shared.trainings import functions, people, plain, terms_of, whole
from tests.subprocesses import HANGS


class Curious(Hub):
    """A hub that keeps every frame that reaches it."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.frames = []

    async def arrived(self, name, frame):
        self.frames.append(frame)
        await super().arrived(name, frame)


def test_the_hub_reads_no_seed_deal_or_weight_of_two_others():
    x, y = people(200, 6)
    terms = terms_of(3, 200, epochs=1)
    recorders, results = {}, {}
    made = functions(x, y, terms, recorders=recorders)
    hub = Curious("bank", ("shop", "phone", "dealer"), "127.0.0.1:0", patience=HANGS, transport=Grpc())
    listening = threading.Event()

    def live(name, end):
        with end:
            listening.set()
            results[name] = made[name](end.meet())

    threads = [threading.Thread(target=live, args=("bank", hub), daemon=True)]
    threads[0].start()
    assert listening.wait(HANGS)
    others = ("shop", "phone", "dealer")
    for name in others:
        rest = [other for other in others if other != name]
        spoke = Spoke(name, "bank", rest, f"127.0.0.1:{hub.port}", patience=HANGS, transport=Grpc())
        threads.append(threading.Thread(target=live, args=(name, spoke), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(HANGS)
        assert not thread.is_alive()
    np.testing.assert_allclose(whole(results, terms)[0], plain(x, y, terms)[0], atol=1e-4)
    wire = b"".join(hub.frames)
    sent = {(me, to): channel.sent for me, channels in recorders.items() for to, channel in channels.items()}
    assert all(part in wire for part in secrets(sent["dealer", "bank"]))  # the control: what is for the hub is there
    assert all(part in wire for part in secrets(sent["shop", "bank"]))
    hidden = [part for (me, to), each in sent.items() if "bank" not in (me, to) for part in secrets(each)]
    assert len(hidden) >= 6  # two seeds, the deals of phone, and shares of weights both ways
    assert not any(part in wire for part in hidden)


def secrets(messages):
    """Pieces of what only the receiver may read. Openings are none: the hub is sent the same words."""
    found = [message.seed for message in messages if isinstance(message, Seeds)]
    return found + [m.words[:16] for m in messages if isinstance(m, Deal | Revealed) if len(m.words) >= 16]
