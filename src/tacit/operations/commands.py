"""What an operator may ask of a running party: a word, and what is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacit.net.pausing import Pausing, State
from tacit.operations.control import Answer
from tacit.operations.overview import View

_NO_PAUSE = (
    "only the coordinator of a federation over a network can be paused: this party can be stopped (tacit stop) and "
    "resumed"
)
_ASKED = {
    State.RUNNING: "No further round begins. One that is under way is finished first.",
    State.ASKED: "A pause was asked for already. The round that is under way is finished first.",
    State.PAUSED: "The run is paused already.",
}
_ENDED = {
    State.RUNNING: "The run was not paused.",
    State.ASKED: "Rounds begin again.",
    State.PAUSED: "Rounds begin again.",
}


def answers(view: View, pausing: Pausing | None, stop: Callable[[], None]) -> Answer:
    """What the party says to each word, and does after it. `pausing`: of a coordinator; `stop`: as SIGTERM does."""

    def answer(word: str) -> tuple[dict[str, Any], Callable[[], None] | None]:
        match word:
            case "status":
                return view.told(), None
            case "stop":
                return {"text": "The party was told to stop, as by SIGTERM."}, stop
            case "pause" | "unpause":
                return {"error": _NO_PAUSE} if pausing is None else _paused(pausing, word == "pause"), None
            case _:
                return {"error": "known are status, pause, unpause and stop: is the command of another release?"}, None

    return answer


def _paused(pausing: Pausing, begins: bool) -> dict[str, Any]:
    try:
        return {"text": _ASKED[pausing.ask()] if begins else _ENDED[pausing.end()]}
    except OSError as error:
        return {"error": f"this could not be stored, and nothing has changed: {error.strerror}"}
