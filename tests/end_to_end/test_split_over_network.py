"""The same trainings over a transport: real connections on loopback, or queues."""

from __future__ import annotations

import threading

import pytest

from tacit.errors import TOLD
from tacit.net.hub import Hub
from tacit.net.spoke import Spoke
from tests.kinds.split.networks import (
    assert_close,
    functions,
    parts_u,
    parts_v,
    settings_u,
    settings_v,
    weights,
    whole_u,
    whole_v,
)
from tests.net.loopback import over_each_transport
from tests.subprocesses import HANGS


def over(transport, settings, parties):
    results, errors = {}, {}
    hub = Hub(settings.leader, settings.followers, "127.0.0.1:0", patience=HANGS, transport=transport)
    listening = threading.Event()

    def live(name, end):
        try:
            with end:
                listening.set()
                try:
                    results[name] = parties[name](end.meet())
                except TOLD as error:
                    end.fail(str(error))
                    raise
        except BaseException as error:
            errors[name] = error
        finally:
            listening.set()

    threads = [threading.Thread(target=live, args=(settings.leader, hub), daemon=True)]
    threads[0].start()
    assert listening.wait(10)
    for name in settings.followers:
        others = [other for other in settings.followers if other != name]
        spoke = Spoke(name, settings.leader, others, f"127.0.0.1:{hub.port}", patience=HANGS, transport=transport)
        threads.append(threading.Thread(target=live, args=(name, spoke), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(HANGS)
        assert not thread.is_alive()
    return results, errors


@pytest.mark.parametrize(
    ("kind", "make", "whole"), [(settings_v, parts_v, whole_v), (settings_u, parts_u, whole_u)], ids=["V", "U"]
)
@over_each_transport
def test_a_training_over_a_network_learns_what_the_network_learns_in_one_piece(transport, kind, make, whole):
    settings = kind(train={"epochs": 6, "batch": 8, "learning_rate": 0.05, "steps": 50})
    parts = make()
    expected = whole(settings, parts, 50)
    results, errors = over(transport(), settings, functions(settings, parts))
    assert not errors
    for name in parts:
        assert_close(weights(results[name]), expected[name])


@over_each_transport
def test_over_a_network_all_hear_why_it_ended(transport):
    parts = parts_v()
    east = parts["east"]
    parts["east"] = type(east)(east.network, (9,), east.train, east.test)
    settings = settings_v()
    results, errors = over(transport(), settings, functions(settings, parts))
    assert not results
    for name in parts:
        assert "the bottom network makes 6 of a record, its cut is 9" in str(errors[name]), name
