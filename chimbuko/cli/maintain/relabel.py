"""``chimbuko relabel``: judges the recorded calls of a run again, by what it knew at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.errors import ConfigError
from chimbuko.provenance.manage.relabel import Relabelled, Verdicts, relabel
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.runs.directory import RunDirectory, find_run
from chimbuko.statistics.model import load_model
from chimbuko.statistics.moments import Float64Array


@click.command("relabel", short_help="Judge the recorded calls again, by the final model.")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--delete", "is_deleting", is_flag=True, help="Remove calls that are abnormal no longer.")
@click.option("--json", "as_json", is_flag=True, help="The numbers as JSON.")
def command(run: Path | None, is_deleting: bool, as_json: bool) -> None:
    """Judge the recorded calls of RUN again; by default of the newest run under ./chimbuko-runs.

    A call is judged while the run goes on, by what is known then. This judges them all by the model that the
    run ended with, and its own thresholds: labels, scores, severities and expected runtimes are replaced.
    Calls that were never recorded are not there to be judged, and counts per step stay as they were.

    \b
    Examples:
      chimbuko relabel
      chimbuko relabel chimbuko-runs/heat --delete
    """
    found = find_run(run)
    if found.read_info().state == "running":
        raise ConfigError(f"{found.path}: the run goes on; relabel it when it has ended")
    relabelled = relabel_run(found, is_deleting)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(relabelled)))
    else:
        print(relabelled_line(relabelled), file=sys.stderr)


def relabel_run(run: RunDirectory, is_deleting: bool) -> Relabelled:
    """Judge all calls in the store of a run by its final model.

    Raises
    ------
    ChimbukoError
        The run has no model, or its store cannot be written.
    """
    info = run.read_info()
    judge = FinalJudge(load_model(run.model_path, info.config), info.config)

    def verdicts(
        program: str, function: str, exclusive_us: Float64Array, inclusive_us: Float64Array
    ) -> Verdicts | None:
        said = judge.judge(program, function, exclusive_us, inclusive_us)
        if said is None:
            return None
        of = said.judged
        return Verdicts(said.is_anomaly, of.score, said.severity_us, of.expected_us, of.spread_us, of.seen)

    engine = open_for_writing(run.used_store_url(info))
    try:
        return relabel(engine, info.id, verdicts, is_deleting)
    finally:
        close(engine)


def relabelled_line(relabelled: Relabelled) -> str:
    """For people."""
    changed = relabelled.now_normal + relabelled.now_abnormal
    deleted = f" ({relabelled.deleted:,} deleted)" if relabelled.deleted else ""
    return (
        f"Judged again by the final model: {changed:,} of {relabelled.calls:,} recorded calls changed; "
        f"{relabelled.now_normal:,} are normal now{deleted}, {relabelled.now_abnormal:,} abnormal"
    )
