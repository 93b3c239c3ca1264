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

VERBS = (
    "init",
    "data",
    "plan",
    "run",
    "runs",
    "join",
    "status",
    "pause",
    "unpause",
    "stop",
    "approve",
    "ledger",
    "predict",
    "scorecard",
    "audit",
    "report",
    "board",
    "evidence",
    "verify",
    "export",
    "keys",
    "flower",
    "completion",
)


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"tacit.cli.{name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; a mistake is one sentence, and not the usage with it."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _refuse(error, ctx)
            raise

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
        except click.UsageError as error:
            _refuse(error, ctx)
            raise
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click ends without a word if nobody reads its output any more
        except Exception as error:
            from tacit.cli.exits import FAILED, end
            from tacit.cli.task_errors import task_traceback

            if (words := task_traceback(error)) is None:
                raise
            end(words.rstrip(), FAILED)


def _refuse(error: click.UsageError, group: click.Context) -> None:
    """End with a sentence that says what is wrong with the words of a command, and what to type instead.

    A command without any words shows its help: that is left to click.
    """
    from difflib import get_close_matches

    from tacit.cli.exits import USER, end

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return
    if error.ctx is None:  # click does not say which command lacks the value of an option
        command, path = group.command, " ".join(filter(None, (group.command_path, group.invoked_subcommand)))
    else:
        command, path = error.ctx.command, error.ctx.command_path
    words = error.format_message().rstrip(".")
    if isinstance(command, click.Group) and words.startswith("No such command"):
        typed, known = words.split("'")[1], command.list_commands(error.ctx or group)
        near = get_close_matches(typed, known, n=1)
        advice = f"did you mean {path} {near[0]}?" if near else f"known are {', '.join(known)}"
        end(f"{path} {typed} is not a command: {advice}", USER)
    if isinstance(error, click.NoSuchOption):
        near = get_close_matches(error.option_name, error.possibilities or [], n=1)
        words = f"no such option {error.option_name}" + (f", did you mean {near[0]}" if near else "")
    end(f"{path}: {words[0].lower()}{words[1:]}: `{path} --help` shows how to call it", USER)


@click.command("tacit", cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tacit")
def main() -> None:
    """Train one model across several parties that do not share their data."""
