"""`tacit completion`: the script with which a shell completes verbs, options and files. It is click's own."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tacit.cli.exits import FAILED, USER, end

_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", required=False, metavar="[bash|zsh|fish]")
@click.option("--install", is_flag=True, help="Write the script to where the shell looks for it.")
@click.pass_context
def command(context: click.Context, shell: str | None, install: bool) -> None:
    """Print the script with which a shell completes tacit, or install it for this user.

    The shell is that of $SHELL unless it is named. Without --install: source <(tacit completion bash).

    Exit codes: 0 done, 1 the script could not be written, 2 a mistake in the input.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        end(f"{shell or 'this shell'} is none that tacit completes in: name {', '.join(_SHELLS)}", USER)
    script = _script(context.find_root().command, shell)
    if not install:
        click.echo(script)
        return
    place = _place(shell)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script + "\n", encoding="utf-8")
    except OSError as error:
        end(f"{error.filename or place}: the script cannot be written there: {error.strerror}", FAILED)
    click.echo(f"Completion: {place}. {_remark(shell, place)}")


def _script(tacit: click.Command, shell: str) -> str:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        end(f"this version of click completes nothing in {shell}: upgrade click", USER)
    made = found(tacit, {}, "tacit", "_TACIT_COMPLETE")
    return (made.source_template % made.source_vars()).strip()  # `source()` starts bash, to warn of an old one


def _place(shell: str) -> Path:
    """Where a shell looks for the completions of its user."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    if shell == "bash":
        return data / "bash-completion" / "completions" / "tacit"
    if shell == "zsh":
        return data / "zsh" / "site-functions" / "_tacit"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "fish" / "completions" / "tacit.fish"


def _remark(shell: str, place: Path) -> str:
    """What is needed besides."""
    if shell == "bash":
        return (
            "New shells with the package bash-completion load it; without that package, add this line to ~/.bashrc: "
            f"source '{place}'"
        )
    if shell == "zsh":
        return f"Add this line to ~/.zshrc, before compinit: fpath+=('{place.parent}')"
    return "New shells load it"
