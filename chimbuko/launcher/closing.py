"""The end of a run, whoever led it: what became of it is noted, and handed to whoever shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from chimbuko.core.errors import ChimbukoError
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.summary import Result, summarize
from chimbuko.launcher.services.storeplace import StorePlace
from chimbuko.provenance.explain.relabelling import judge_at_end
from chimbuko.provenance.history.remembering import Remembered, remember
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.process.failures import words_of
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo

Show = Callable[[Result], None]
"""Function that shows the result of a run to the user; it is called once, as soon as there is a result."""


def _unsummarised(run: RunDirectory, ended: RunInfo, problems: list[str], error: Exception) -> Result:
    """Note the end of a run in its folder only, as its store cannot be read."""
    try:
        run.write_info(ended)
    except ChimbukoError as unwritten:
        problems.append(str(unwritten))
    code = error.exit_code if isinstance(error, ChimbukoError) else ChimbukoError.exit_code
    return Result(str(run.path), problems, None, ended.exit_code, code)


def close_run(
    run: RunDirectory,
    place: StorePlace,
    problems: list[str],
    state: str,
    exit_code: int | None,
    is_relabelling: bool,
    is_hasty: Callable[[], bool],
    lost_agents: Sequence[str] = (),
    is_judged: bool = False,
) -> Result:
    """Note what became of a run in its folder and store.

    Nothing is raised: whoever led the run has the exit code of a program to pass on.

    Parameters
    ----------
    place
        Place of its store.
    problems
        One line each, for what did not end as it should; what goes wrong here is added.
    state, exit_code
        As in ``RunInfo``.
    is_relabelling
        Whether recorded calls are judged again by the final model.
    is_hasty
        Whether somebody does not want to wait for what takes seconds and can be done later.
    lost_agents
        Those on other nodes of which nothing is heard.
    is_judged
        Whether they are judged again already.
    """
    try:
        if not is_judged and _has_streams(run):
            line = judge_at_end(run, is_hasty, problems.append, is_relabelling)
            if line:
                say(line)
    except Exception as error:
        problems.append(words_of(error))
    ended = msgspec.structs.replace(
        place.info, state=state, ended_us=time.time_ns() // 1000, exit_code=exit_code
    )
    try:
        summary = summarize(run, problems, exit_code)
    except Exception as error:
        problems.append(words_of(error))
        return _unsummarised(run, ended, problems, error)
    try:
        place.write_info(
            msgspec.structs.replace(ended, trace_bytes=summary.trace_bytes, stored_bytes=summary.stored_bytes)
        )
    except Exception as error:
        problems.append(words_of(error))
    remembered = _remembered(run, problems)
    summary = msgspec.structs.replace(
        summary,
        known=remembered.known,
        slower_than_usual=remembered.slower,
        problems=problems,
        lost_agents=list(lost_agents),
    )
    return Result(str(run.path), problems, summary, exit_code, 0)


def _remembered(run: RunDirectory, problems: list[str]) -> Remembered:
    """Enter the run into the index of its series, where there is one; return what the series says of it."""
    try:
        return remember(run, run.read_info())
    except Exception as error:
        problems.append(f"the run is not in the history of its series: {words_of(error)}")
        return Remembered()


def _has_streams(run: RunDirectory) -> bool:
    """Return whether anything was analysed: without a stream there is no call, and to find none takes 0.07 s
    of CPU.
    """
    with open_run(run) as provenance:
        return bool(provenance.health())
