"""`tacit audit`: what an attacker recovers from the messages of a file, or of a run; and the claims of others."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tacit.cli.claims import ClaimOptions, audit_claim, page_of
from tacit.cli.exits import FAILED, USER, end

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tacit.audit.result import Audit
    from tacit.audit.scope import Scope
    from tacit.sections import Settings

_WIDTH = 118  # of the tables, where stdout is no terminal
_NARROWEST = 100


@click.command("audit")
@click.argument("target", metavar="FILE|RUN", required=False, type=click.Path(path_type=Path))
@click.option("--quick/--full", "quick", default=True, help="About a minute (the default), or every attack in full.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the attacks.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key; may be repeated.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Path of the page.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--mechanism", metavar="MODULE:FUNCTION", help="Audit the ε of any code that adds noise.")
@click.option("--opacus", metavar="MODULE:FUNCTION", help="Audit the ε of an Opacus training.")
@click.option(
    "--flower", metavar="APP", help="Audit the ε of a Flower app: its folder, or MODULE:APP of its ClientApp."
)
@click.option("--epsilon", type=float, help="The claim, unless the code states it.")
@click.option("--delta", type=float, help="The δ of the claim, unless the code states it.")
@click.option("--relation", type=click.Choice(["zero-out", "replace-one"]), help="How --flower reads the claim.")
@click.option("--confidence", type=float, help="Of all bounds on a claim of others together; 0.95 unless given.")
def command(
    target: Path | None,
    quick: bool,
    seed: int,
    overrides: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    quiet: bool,
    **claims: Any,
) -> None:
    """Attack a training as FILE describes it, and report what an attacker recovers.

    RUN is the folder of a run. It is run again from its settings with a recorder, so its private data are needed
    again, and its task, which must be installed or in the current folder. The attacks that fit the kind are run
    without the protection and with it. Lower bounds on ε are compared with the proved ε.

    The page is RUN/audit.html, or NAME-audit.html in the current folder for a FILE called NAME.yaml. It may show
    records that the attacks recovered: do not share it. RUN/audit.json has the findings for `tacit evidence`.

    Without FILE or RUN, --mechanism, --opacus or --flower names code of others whose ε is recomputed from its
    parameters and measured on samples: docs/audit-claims.md says what each expects.

    Exit codes: 0 done, 1 a claim is false (an audited bound is above the proved one), is not proved (claims of
    others only) or the audit failed, 2 a mistake in the input, 5 stopped: start again.
    """
    options = ClaimOptions(**claims)
    try:
        theirs = options.code is not None
    except ValueError as error:
        end(str(error), USER)
    if theirs:
        if target is not None or overrides:
            end("--mechanism, --opacus and --flower are audited without a FILE and without --set", USER)
        _audit_claim(options, quick, seed, output, as_json)
        return
    if target is None:
        raise click.MissingParameter(param_type="argument", param_hint="'FILE|RUN'")
    _audit_training(target, overrides, quick, seed, output, as_json, quiet)


def _audit_training(
    target: Path, overrides: tuple[str, ...], quick: bool, seed: int, output: Path | None, as_json: bool, quiet: bool
) -> None:
    import json

    from tacit.audit.page import whole_page
    from tacit.audit.scope import Scope
    from tacit.audit.text import false_claim, plain, print_table
    from tacit.config.task import look_beside

    file, page = _places(target)
    page = output or page
    _check_place(page)
    look_beside(None if target.is_dir() else file)
    try:
        made = _carried_out(_settings(file, overrides), Scope(quick, seed), quiet)
    except Exception as error:
        _failed(error)
    _write(page, whole_page(made))
    found = json.dumps(plain(made), indent=2)
    if target.is_dir():
        _write(target / "audit.json", f"{found}\n")  # for `tacit evidence`
    click.echo(found if as_json else print_table(made, _width()), nl=as_json)
    click.echo(f"Audit: {page}", err=as_json)
    if made.false_claims:
        end("\n".join(false_claim(each) for each in made.false_claims), FAILED)


def _audit_claim(options: ClaimOptions, quick: bool, seed: int, output: Path | None, as_json: bool) -> None:
    import json

    from tacit.audit.claims.claim_page import claim_page
    from tacit.audit.claims.claim_text import plain, print_claim, sentence

    page = output or page_of(options)
    _check_place(page)
    try:
        made = audit_claim(options, quick=quick, seed=seed)
    except SystemExit as error:  # of the audited code: with 0 it would look like a claim that holds
        end(f"the audited code ended the process with {error.code!r}, so nothing was audited: let it return", FAILED)
    except Exception as error:
        _failed(error)
    _write(page, claim_page(made))
    click.echo(json.dumps(plain(made), indent=2) if as_json else print_claim(made, _width()), nl=as_json)
    click.echo(f"Audit: {page}", err=as_json)
    if not made.judged.stands:
        end(sentence(made), FAILED)


def _failed(error: Exception) -> NoReturn:
    """End an audit that could not be carried out: by the user's mistake, or by one in the code."""
    from tacit.cli.task_errors import task_traceback
    from tacit.errors import TacitError

    own = task_traceback(error)
    if own is None and isinstance(error, ValueError | TacitError):
        end(str(error), USER)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        end("this audit needs torch: pip install 'tacit-learning[torch]'", USER)
    click.echo(own or "".join(traceback.format_exception(error)), err=True)
    end("the audit could not be carried out: this is a mistake in Tacit or in a task, not a false claim", FAILED)


def _write(page: Path, text: str) -> None:
    from tacit.store.directory import replace_file

    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        replace_file(page, text.encode())
    except OSError as error:
        _refuse_place(page, str(error.strerror))


def _check_place(page: Path) -> None:
    """Before minutes of work: whether the page can be written."""
    if page.is_dir():
        _refuse_place(page, "Is a directory")
    there = next((folder for folder in page.absolute().parents if folder.exists()), page.parent)
    if not (there.is_dir() and os.access(there, os.W_OK)):
        _refuse_place(page, f"{there} is no folder that can be written to")


def _refuse_place(page: Path, reason: str) -> NoReturn:
    end(f"{page}: the page cannot be written there: {reason}. Name a place with --output", USER)


def _places(target: Path) -> tuple[Path, Path]:
    """The file to read, and where the page goes."""
    if target.is_dir():
        return target / "config.yaml", target / "audit.html"
    return target, Path(f"{target.stem}-audit.html")


def _settings(file: Path, overrides: tuple[str, ...]) -> Settings:
    from tacit.config.source import ConfigError
    from tacit.runs.load import load

    if file.name == "config.yaml" and file.parent.is_dir() and not file.exists():
        raise ConfigError(
            f"{file.parent}: this is not the folder of a run, it has no config.yaml: `tacit run` makes one"
        )
    return load(file, overrides)


def _carried_out(settings: Settings, scope: Scope, quiet: bool) -> Audit:
    """With a bar on a terminal, a line for each step elsewhere; both on stderr, where they disturb no JSON."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from tacit.runs.audit import audit

    if quiet:
        return audit(settings, scope)
    console = Console(stderr=True)
    if not console.file.isatty() or console.is_dumb_terminal:  # as in progress.screen
        return audit(settings, scope, lambda number, of, name: click.echo(f"step {number + 1}/{of}: {name}", err=True))
    columns = (MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        return audit(settings, scope, lambda number, of, name: _move(bar, task, number, of, name))


def _move(bar: Progress, task: TaskID, number: int, of: int, name: str) -> None:
    bar.update(task, completed=number, total=of, description=name)


def _width() -> int:
    from rich.console import Console

    console = Console()
    return max(_NARROWEST, console.width) if console.file.isatty() else _WIDTH
