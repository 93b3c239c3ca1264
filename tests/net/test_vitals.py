"""An event loop that is asked from another thread."""

from __future__ import annotations

import asyncio
import threading

from tacit.net.vitals import Figures, Traffic, Vitals
from tests.subprocesses import HANGS


def test_nobody_there_is_no_trouble():
    assert Vitals().look(0.0) == Figures()


def test_several_parties_count_together_and_those_that_ended_keep_their_traffic():
    vitals = Vitals()

    async def live():
        with vitals.watched(lambda: Figures(1, 1, "", Traffic(10, 20))):
            with vitals.watched(lambda: Figures(0, 1, "upload", Traffic(1, 2))):
                both = await asyncio.to_thread(vitals.look, HANGS)
            return both, await asyncio.to_thread(vitals.look, HANGS)

    both, one = asyncio.run(live())
    assert both == Figures(1, 2, "upload", Traffic(11, 22))
    assert one == Figures(1, 1, "", Traffic(11, 22))
    assert vitals.look(0.0) == Figures(traffic=Traffic(11, 22))


def test_the_figures_are_read_in_the_loop():
    vitals, read = Vitals(), []

    def figures():
        read.append(threading.get_ident())
        return Figures(1, 1)

    async def live():
        with vitals.watched(figures):
            assert await asyncio.to_thread(vitals.look, HANGS) == Figures(1, 1)
            assert read == [threading.get_ident()]

    asyncio.run(live())


def test_a_loop_that_is_busy_does_not_answer_and_one_that_has_ended_is_no_trouble():
    vitals = Vitals()
    loop = asyncio.new_event_loop()
    with vitals.watched(Figures, loop):
        assert vitals.look(0.05) is None  # nobody runs it
        loop.close()
        assert vitals.look(0.05) == Figures()
