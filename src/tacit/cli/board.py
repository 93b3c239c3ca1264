"""`tacit board`: a page of this machine that shows the runs of a folder, live."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("board")
@click.argument("folder", metavar="[RUNS]", default="runs", type=click.Path(path_type=Path))
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; default: any free one.")
@click.option("--open/--no-open", "show", default=False, help="Open the page in this machine's browser.")
def command(folder: Path, port: int, show: bool) -> None:
    """Show the runs in the folder RUNS (default: runs) as a page, and follow those that are under way.

    The page lists every run with its state, kind, protection, epsilon and metric, shows the events of each as they
    come, compares runs, and opens reports and audits. It is served on 127.0.0.1, at an address with a random token that
    is printed. Nothing is written to a run. Ctrl-C or SIGTERM ends it.

    Exit codes: 0 ended, 2 a mistake in the input, such as a port that is in use.
    """
    from tacit.board.server import open_board
    from tacit.store.run_summary import holds_run

    if not folder.is_dir():
        end(
            f"{folder}: there is no such folder: name the one that holds runs, such as the one of tacit run --runs",
            USER,
        )
    if holds_run(folder):
        end(f"{folder} is itself a run: name the folder that holds it, which is {folder.resolve().parent}", USER)
    try:
        with open_board(folder, port) as address:
            click.echo(f"Board of {folder}: {address.url}")
            if show:
                webbrowser.open(address.once)
            threading.Event().wait()
    except ValueError as error:
        end(str(error), USER)
    except KeyboardInterrupt:
        click.echo("The board is closed.")
