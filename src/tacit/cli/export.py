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
@click.option("--mlflow", metavar="URI|DIR", help="Write to an MLflow store; in a DIR, to DIR/mlflow.db.")
@click.option("--experiment", metavar="NAME", help="In MLflow; the federation's name if left out.")
@click.option("--share", is_flag=True, help="Leave out every figure that no ε covers, and what may hold paths.")
def command(run: Path, tensorboard: Path | None, mlflow: str | None, experiment: str | None, share: bool) -> None:
    """Write the figures of RUN, a run's folder, for other tools.

    Exported figures include some that no ε covers, such as the training loss, how many clients came and how long a
    round took: keep them to yourself, or use --share. Exporting a run again replaces what was exported before.

    Needs the extra: pip install 'tacit-learning[export]'. It writes for both tools; to look at the figures, install
    tensorboard or mlflow.
    """
    from tacit.runs.export import ExportError, read_exported, store_uri, to_mlflow, to_tensorboard

    if tensorboard is None and mlflow is None:
        end("Where to? Give --tensorboard DIR or --mlflow URI", USER)
    if experiment is not None and mlflow is None:
        end("--experiment is of MLflow: give --mlflow URI too", USER)
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
