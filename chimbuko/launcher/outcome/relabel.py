"""A run's recorded calls, judged again by the model that the run ended with."""

from __future__ import annotations

from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.arrays import Float64Array
from chimbuko.launcher.outcome.incidents import explain_run
from chimbuko.provenance.manage.relabel import Relabelled, Verdicts, relabel
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.runs.directory import RunDirectory
from chimbuko.statistics.model import load_model


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
        relabelled = relabel(engine, info.id, verdicts, is_deleting)
    finally:
        close(engine)
    explain_run(run)
    return relabelled


def relabelled_line(relabelled: Relabelled) -> str:
    """For people."""
    changed = relabelled.now_normal + relabelled.now_abnormal
    deleted = f" ({relabelled.deleted:,} deleted)" if relabelled.deleted else ""
    return (
        f"Judged again by the final model: {changed:,} of {relabelled.calls:,} recorded calls changed; "
        f"{relabelled.now_normal:,} are normal now{deleted}, {relabelled.now_abnormal:,} abnormal"
    )
