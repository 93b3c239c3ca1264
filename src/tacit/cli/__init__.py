"""The command `tacit`: one module a verb, named after it, with a `command`.

The verbs import what they need when they run: `tacit --help` loads nothing but click.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from tacit.version import __version__

VERBS = ("init", "data", "plan", "run", "join", "predict", "scorecard", "audit", "report", "export", "keys", "flower")


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"tacit.cli.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb. If the code of a task fails, the traceback shows the frames of that code only.

        From here on SIGTERM stops it as Ctrl-C does; a run takes the signals over once it begins.
        """
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from tacit.cli.exits import AGAIN, end

            end("Stopped.", AGAIN)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from tacit.cli.exits import FAILED, end
            from tacit.cli.task_errors import task_traceback

            if (words := task_traceback(error)) is None:
                raise
            end(words.rstrip(), FAILED)


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tacit")
def main() -> None:
    """Train one model across several parties that do not share their data."""
