"""What the commands to a running party have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.cli.exits import USER, end


def asked(run: Path, verb: str) -> dict[str, Any]:
    """The answer of the party that runs in this folder. Ends the command, in a sentence, if none runs or it refuses."""
    from tacit.config.source import ConfigError
    from tacit.operations.control import ask

    try:
        answer = ask(run, verb)
    except ConfigError as error:
        end(str(error), USER)
    if "error" in answer:
        end(f"{run}: {answer['error']}", USER)
    return answer
