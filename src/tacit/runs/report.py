"""The page that a run leaves behind, `report.html`, and the comparison of several runs.

Each kind makes its own pages; those of trainings in epochs are alike (`tacit.report.epochs`, `epochs_comparison`). With
`share`, only what an epsilon covers is shown: the rest derives from private records, or from who took part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.kind import kind_of
from tacit.report.chart import standalone
from tacit.report.figure import Figure, Report
from tacit.runs.load import load
from tacit.sections import Settings
from tacit.store.directory import party_of, replace_file
from tacit.store.reading import checked_events, environment, ledgers
from tacit.store.record import Record


def report_run(path: str | Path) -> Path:
    """Write `report.html` and `plots/` into a run's directory."""
    return write_report([Path(path)])


def write_report(runs: Sequence[Path], output: Path | None = None, share: bool = False) -> Path:
    """Write the report of one run, or the comparison of several, and return its path.

    One run's goes to its directory (`report.html` and `plots/`, or `report-share.html`), a comparison to
    `comparison.html` here. With any other name the plots are next to the page, in a folder of its name.
    Raises ValueError if a run cannot be read and OSError if the page cannot be written.
    """
    if not runs:
        raise ValueError("there is no run to report on: give the folder of one")
    records = [read_run(path) for path in runs]
    made = _made(records, share)
    if len(records) == 1:
        default = records[0].path / ("report-share.html" if share else "report.html")
    else:
        default = Path("comparison-share.html" if share else "comparison.html")
    page = output or default
    page.parent.mkdir(parents=True, exist_ok=True)
    plots = page.with_name("plots") if page.name == "report.html" else page.with_name(f"{page.stem}-plots")
    _write_plots(plots, made.figures)
    replace_file(page, made.page.encode())
    return page


def read_run(path: str | Path) -> Record[Settings]:
    """Read a run's directory. Raises ValueError, in a sentence, where there is none or a file of it is broken."""
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"{path}: there is no such folder: give the folder of a run, such as runs/<time>-<name>")
    for name in ("config.yaml", "events.jsonl"):
        if not (path / name).is_file():
            raise ValueError(f"{path}: this is not the folder of a run, it has no {name}: `tacit run` makes one")
    settings = load(path / "config.yaml")
    return Record(
        path,
        settings,
        kind_of(settings).boundary(settings),
        party_of(path),
        tuple(checked_events(path)),
        ledgers(path),
        environment(path / "environment.json"),
        kind_of(settings).counted,
    )


def _made(records: Sequence[Record[Settings]], share: bool) -> Report:
    kinds = [kind_of(record.settings) for record in records]
    if len({kind.unit for kind in kinds}) > 1:
        raise ValueError(
            "a federation and a training of one or a few parties cannot be compared: give runs of one sort"
        )
    return kinds[0].report(records, share)


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
