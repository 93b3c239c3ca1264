"""`tacit export`: a run's figures for TensorBoard or MLflow."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--tensorboard", metavar="DIR", type=click.Path(path_type=Path), help="Write an event file to DIR/<name of RUN>."
)
@click.option("--mlflow", metavar="URI|DIR", help="Write to an MLflow store; for a DIR, to DIR/mlflow.db.")
@click.option("--experiment", metavar="NAME", help="Experiment in MLflow; default: the federation's name.")
@click.option(
    "--share", is_flag=True, help="Leave out every figure that no ε covers, and settings that may hold paths."
)
def command(run: Path, tensorboard: Path | None, mlflow: str | None, experiment: str | None, share: bool) -> None:
    """Write the figures of RUN, a run's folder, for other tools.

    Exported figures include some that no ε covers, such as the training loss, the number of clients and the duration
    of a round: do not share them, or use --share. Exporting a run again replaces the earlier export.

    Needs the extra: pip install 'tacit-learning[export]'. It writes for both tools; to view the figures, install
    tensorboard or mlflow.
    """
    from tacit.runs.export import ExportError, read_exported, store_uri, to_mlflow, to_tensorboard

    if tensorboard is None and mlflow is None:
        end("No destination: give --tensorboard DIR or --mlflow URI", USER)
    if experiment is not None and mlflow is None:
        end("--experiment is for MLflow: add --mlflow URI", USER)
    try:
        exported = read_exported(run, share=share)
        if tensorboard is not None:
            folder = to_tensorboard(exported, tensorboard)
            click.echo(f"{folder} is written. Look at it with: tensorboard --logdir {tensorboard}")
        if mlflow is not None:
            number = to_mlflow(exported, mlflow, experiment)
            uri = store_uri(mlflow)
            click.echo(f"MLflow run {number} is written. Look at it with: mlflow ui --backend-store-uri {uri}")
    except ExportError as error:
        end(str(error), USER)
    if not exported.figures:
        click.echo("It has no figures: " + ("no epsilon covers any." if share else "no round was finished."))
