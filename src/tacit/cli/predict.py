"""`tacit predict`: scores of new rows by the model that the parties trained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.exits import AGAIN, BUDGET, PEER, USER, end

if TYPE_CHECKING:
    from tacit.sections import Settings
    from tacit.store.scores import Scores


@click.command("predict")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--run", "run", required=True, metavar="RUN", type=click.Path(path_type=Path), help="Folder of the trained run."
)
@click.option("--party", metavar="NAME", help="The party to run, over a network; default: all parties on this machine.")
@click.option(
    "--input", "inputs", multiple=True, metavar="FILE", help="Rows of this party; without --party NAME=FILE for each."
)
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Path of the scores, as CSV.")
@click.option(
    "--local",
    "local_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keys, paths and address of this party.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
@click.option("--insecure", is_flag=True, help="Run without certificates; only on this machine.")
def command(
    file: Path,
    run: Path,
    party: str | None,
    inputs: tuple[str, ...],
    output: Path | None,
    local_file: Path | None,
    overrides: tuple[str, ...],
    insecure: bool,
) -> None:
    """Predict for new rows with the model that the parties of FILE trained.

    Each party has only its own part of the model, in the folder of its run, and its own rows. All parties start
    `tacit predict` with the same FILE, and the party with the labels gets the scores (--output). Without --party all
    parties run in this process: --input bank=new_bank.csv --input shop=new_shop.csv.

    The scores are CSV: id, score, decision. FILE sets how exact they are (predict.release) and how many rows a party
    answers with one model (predict.budget). Each party logs its answers in answers.jsonl.

    Exit codes: 0 done, 1 permanent failure, 2 a mistake in the input, 3 a fault of another party, 4 the budget of rows
    is reached, 5 stopped or interrupted: start again.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from tacit.cli.task_errors import task_traceback
    from tacit.errors import BudgetError, PeerAway, PeerError
    from tacit.kind import kind_of
    from tacit.runs.load import load
    from tacit.runs.predict import predict_here
    from tacit.store.scores import write_scores

    try:
        settings = load(file, overrides)
        predict = kind_of(settings).predict
        if output is None and party in (None, predict.receiver(settings) if predict else None):
            end("--output is missing: this party gets the scores, say where they go", USER)
        if output is not None and not output.absolute().parent.is_dir():
            end(f"--output: there is no folder {output.parent}: make it first", USER)
        if party is None:
            scores: Scores | None = predict_here(settings, run, _by_party(inputs), _Told())
        else:
            scores = _as_party(settings, party, run, inputs, local_file, insecure, (file, overrides))
        if scores is not None and output is not None:
            write_scores(scores, output)
            click.echo(f"Scores of {len(scores.rows)} rows: {output}")
        else:
            click.echo("Done: the scores are with the party that has the labels.")
    except PeerAway as error:
        end(f"{error}: start again.", AGAIN)
    except PeerError as error:
        end(f"{error}.", PEER)
    except BudgetError as error:
        end(f"{error}.", BUDGET)
    except KeyboardInterrupt:
        end("Stopped.", AGAIN)
    except ValueError as error:
        if task_traceback(error) is not None:
            raise
        end(str(error), USER)
    except OSError as error:
        end(f"{error.filename}: {error.strerror}", USER)


def _as_party(
    settings: Settings,
    party: str,
    run: Path,
    inputs: tuple[str, ...],
    local_file: Path | None,
    insecure: bool,
    source: tuple[Path, tuple[str, ...]],  # of the settings: the file, and what overrides it
) -> Scores | None:
    from tacit.cli.join import approval
    from tacit.config.local import load_local
    from tacit.runs.join import join_of, site_of
    from tacit.runs.policy import check_approved, check_uncounted
    from tacit.runs.predict import predict_as

    if len(inputs) > 1:
        end("--input: with --party give your own rows only, one FILE", USER)
    local, folder = load_local(local_file)
    check_uncounted(local.policy, settings, "a prediction")
    if local.policy is not None:
        join = join_of(settings)
        networked = join.networked(settings)
        again = approval(source[0], party, None, local_file, source[1])
        check_approved(local.policy, networked, join.seat(networked, party, None), folder, again)
    site = site_of(settings, local, folder, party, insecure=insecure)
    return predict_as(settings, party, run, Path(inputs[0]) if inputs else None, site, _Told())


class _Told:
    """Events as lines on stderr, so that they do not mix with results."""

    def emit(self, event: object) -> None:
        from tacit.store.log_lines import line

        if words := line(event):  # type: ignore[arg-type]
            click.echo(words, err=True)


def _by_party(inputs: tuple[str, ...]) -> dict[str, Path]:
    found = {}
    for text in inputs:
        name, equals, path = text.partition("=")
        if not equals or not path:
            end(f"--input is {text!r}: give NAME=FILE for each party, or name your own party with --party", USER)
        found[name] = Path(path)
    return found
