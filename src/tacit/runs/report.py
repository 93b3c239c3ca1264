"""The page that a run leaves behind, `report.html`, and the comparison of several runs.

Pages of federations are made by `tacit.kinds.horizontal.report`, those of trainings in epochs by `tacit.report.epochs`
and `epochs_comparison`. With `share`, only what an epsilon covers is shown: the rest derives from private records, or
from who took part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.kinds.horizontal.participation import Participation
from tacit.kinds.horizontal.record import Record, read_run
from tacit.kinds.horizontal.report.comparison import comparison
from tacit.kinds.horizontal.report.participant import participant
from tacit.kinds.horizontal.report.single import single
from tacit.report.chart import standalone
from tacit.report.epochs import training
from tacit.report.epochs_comparison import trainings
from tacit.report.figure import Figure
from tacit.report.trained import Trained
from tacit.store.directory import replace_file


def report_run(path: str | Path) -> Path:
    """Write `report.html` and `plots/` into a run's directory."""
    return write_report([Path(path)])


def write_report(runs: Sequence[Path], output: Path | None = None, share: bool = False) -> Path:
    """Write the report of one run, or the comparison of several, and say where it is.

    One run's goes to its directory (`report.html` and `plots/`, or `report-share.html`), a comparison to
    `comparison.html` here. With any other name the plots lie beside the page, in a folder of its name.
    Raises ValueError where a run cannot be read and OSError where the page cannot be written.
    """
    if not runs:
        raise ValueError("there is no run to report on: give the folder of one")
    records = [read_run(path) for path in runs]
    words, figures = _made(records, share)
    if len(records) == 1:
        default = records[0].path / ("report-share.html" if share else "report.html")
    else:
        default = Path("comparison-share.html" if share else "comparison.html")
    page = output or default
    page.parent.mkdir(parents=True, exist_ok=True)
    plots = page.with_name("plots") if page.name == "report.html" else page.with_name(f"{page.stem}-plots")
    _write_plots(plots, figures)
    replace_file(page, words.encode())
    return page


def _made(records: Sequence[Record | Trained | Participation], share: bool) -> tuple[str, list[Figure]]:
    for record in records:
        if isinstance(record, Participation):
            if len(records) > 1:
                raise ValueError(
                    f"{record.path}: this is the folder of clients, which has a page of its own: give it alone"
                )
            return participant(record, share)
    federations = [record for record in records if isinstance(record, Record)]
    epochs = [record for record in records if isinstance(record, Trained)]
    if federations and epochs:
        raise ValueError(
            "a federation has rounds and a training has epochs, which cannot be compared: give runs of one sort"
        )
    if federations:
        return single(federations[0], share) if len(federations) == 1 else comparison(federations, share)
    return training(epochs[0], share) if len(epochs) == 1 else trainings(epochs, share)


def _write_plots(folder: Path, figures: Sequence[Figure]) -> None:
    """Write a file for each figure. Charts of an earlier report go: they may show what this one leaves out."""
    kept = {f"{figure.chart.name}.svg": standalone(figure.chart) for figure in figures}
    if folder.is_symlink():
        raise ValueError(f"{folder}: this is a link: remove it, or name another place with --output")
    if folder.is_dir():
        for path in folder.glob("*.svg"):
            if path.name not in kept and _is_chart(path):
                path.unlink()
    if kept:
        folder.mkdir(parents=True, exist_ok=True)
    for name, words in kept.items():
        replace_file(folder / name, words.encode())


def _is_chart(path: Path) -> bool:
    """Whether a file was written here: others are not ours to remove."""
    with path.open("rb") as file:
        return b'class="chart" role="img"' in file.read(300)
