"""`tacit approve`: a site's operator confirms what a party will take part in."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end

_PATH = click.Path(path_type=Path)


@click.command("approve")
@click.argument("file", type=_PATH)
@click.option("--party", required=True, metavar="NAME", help="The party that will join, as `tacit join` names it.")
@click.option("--id", "identities", metavar="K", help="Number of the client.")
@click.option("--local", "local_file", required=True, metavar="FILE", type=_PATH, help="That party's own file.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
@click.option("--yes", is_flag=True, help="Approve without being asked.")
def command(
    file: Path,
    party: str,
    identities: str | None,
    local_file: Path,
    overrides: tuple[str, ...],
    yes: bool,
) -> None:
    """Show what one party of FILE will do, and approve it for this site.

    With `approve: ask` in the policy of the --local file, `tacit join` takes part only in what was approved: these
    settings, this party, and this code, by its digests. No code of the task is run before it was shown and approved.
    """
    from tacit.cli.task_errors import task_traceback
    from tacit.config.local import load_local
    from tacit.config.task import look_beside
    from tacit.report.forecast import words
    from tacit.runs.join import join_of
    from tacit.runs.load import load
    from tacit.runs.plan import planned_for
    from tacit.runs.policy import code_of, folder_of, plan_digest
    from tacit.store.site_ledger import approve

    look_beside(file)
    try:
        settings = load(file, overrides)
        local, folder = load_local(local_file)
        if local.policy is None or local.policy.folder is None:
            end(f"{local_file}: it names no policy.folder, which holds what was approved", USER)
        asked = local.model_copy(update={"policy": local.policy.model_copy(update={"approve": "never"})})
        join = join_of(settings)
        networked = join.networked(settings)
        seat = join.seat(networked, party, identities)
        code = code_of(networked)
        digest = plan_digest(networked, seat)
        for each in code:
            click.echo(f"{each.what}: {each.digest}")
        if not yes:
            click.confirm("Run this code to make the plan?", abort=True)
        click.echo(words(planned_for(settings, seat.name, asked, folder, None)), nl=False)
        if not yes:
            click.confirm(f"May {seat.name} take part in this?", abort=True)
        if plan_digest(networked, seat) != digest:
            end(f"{file}: the code was changed meanwhile: nothing was approved", USER)
        approve(folder_of(local.policy, folder), digest)
    except click.Abort:
        end("Nothing was approved.", USER)
    except ValueError as error:
        if task_traceback(error) is not None:
            raise
        end(str(error), USER)
    except OSError as error:
        end(f"{error.filename or local_file}: the approval cannot be stored: {error.strerror}", USER)
    click.echo(f"Approved: {digest}")
