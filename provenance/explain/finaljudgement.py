"""Final judgement: a run's recorded calls are judged again by the model that the run ended with."""

from __future__ import annotations

from collections.abc import Callable

from chimbuko.ad.detectors.offline import FinalJudge
from chimbuko.core.statistics.model import load_model
from chimbuko.provenance.explain.explaining import Say, explain_at_end, explain_run, is_explained_at_end
from chimbuko.provenance.explain.relabelling import Relabelled, relabel
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.runs.directory import RunDirectory


def relabel_run(
    run: RunDirectory,
    is_deleting: bool,
    is_hasty: Callable[[], bool] = lambda: False,
    is_explained: bool = False,
    say: Say = log,
) -> Relabelled:
    """Judge all calls in the store of a run by its final model, and find its incidents anew.

    Parameters
    ----------
    is_hasty, say
        As for ``explain_run``.
    is_explained
        Whether all calls are explained as they are.

    Raises
    ------
    ChimbukoError
        The run has no model, or its store cannot be written.
    """
    info = run.read_info()
    judge = FinalJudge(load_model(run.model_path, info.config), info.config)

    # Waits are judged by what they waited for, so that has to be known.
    if not is_explained:
        explain_run(run, is_hasty)
    engine = open_for_writing(run.used_store_url(info))
    try:
        relabelled = relabel(engine, info.id, judge.judge, is_deleting)
    finally:
        close(engine)
    # What the trace knew is in the store now.
    explain_run(run, is_hasty=lambda: True, say=say)
    return relabelled


def judge_at_end(
    run: RunDirectory, is_hasty: Callable[[], bool], say: Say, is_explained: bool = False
) -> str:
    """Judge the calls of a run that has just ended once more, and return a line for the user, if any.

    Where very many calls are abnormal, they stay as they are.

    Parameters
    ----------
    is_hasty, say, is_explained
        As for ``relabel_run``.

    Raises
    ------
    ChimbukoError
        The store cannot be read or written.
    """
    if not run.model_path.exists() or not is_explained_at_end(run):
        return explain_at_end(run, is_hasty, say)
    relabelled = relabel_run(run, False, is_hasty, is_explained, say)
    return relabelled_line(relabelled) if relabelled.now_normal or relabelled.now_abnormal else ""


def relabelled_line(relabelled: Relabelled) -> str:
    """Return the line for people about calls that were judged again."""
    changed = relabelled.now_normal + relabelled.now_abnormal
    deleted = f" ({relabelled.deleted:,} deleted)" if relabelled.deleted else ""
    return (
        f"Judged again by the final model: {changed:,} of {relabelled.calls:,} recorded calls changed; "
        f"{relabelled.now_normal:,} {'is' if relabelled.now_normal == 1 else 'are'} normal now{deleted}, "
        f"{relabelled.now_abnormal:,} abnormal"
    )
