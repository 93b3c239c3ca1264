"""The page docs/reference/commands.md: every verb of the command line with its arguments, options and exit codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from tacit.cli import exits, main

# Every exit code, by the name that the code has for it.
EXITS = {
    "DONE": "The command did what was asked. A run came to its end.",
    "FAILED": "The run failed for good: starting it again does not help. `tacit audit`: a claim was refuted, or one of "
    "others is not proved.",
    "USER": "A mistake in the input: the file, an option, a table, a missing package. The message says what to change.",
    "PEER": "Another party broke the protocol. Nothing was sent in reply.",
    "BUDGET": "The privacy budget was reached. Everything that was finished is stored.",
    "AGAIN": "Stopped or interrupted: a signal, a party that is away, a full disk. Start again, with `--resume` or "
    "`--state`, to resume.",
}


def commands(command: click.Command, name: str = "tacit") -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, with the words that call each."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
        for verb in command.list_commands(context):
            if (inner := command.get_command(context, verb)) is not None:
                yield from commands(inner, f"{name} {verb}")


def page() -> str:
    """The page of all commands."""
    lines = [
        "# Commands",
        "",
        "Made by `python -m pages` from the command line itself: `tacit VERB --help` says the same.",
    ]
    for name, command in commands(main):
        lines += ["", f"## `{name}`", "", *_described(name, command)]
    lines += ["", "## Exit codes", "", "| code | name | meaning |", "| --- | --- | --- |"]
    lines += [f"| {getattr(exits, name)} | `{name}` | {words} |" for name, words in EXITS.items()]
    return "\n".join(lines) + "\n"


def _described(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ["```", f"{name} {usage}", "```", ""]
    yield from inspect.cleandoc(command.help or "").replace("\b\n", "").splitlines()
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = [record for each in options if (record := each.get_help_record(context)) is not None]
    if records:
        yield from ["", "| option | meaning |", "| --- | --- |"]
        yield from (f"| `{_cell(option)}` | {_cell(words)} |" for option, words in records)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
