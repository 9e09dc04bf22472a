"""Status of a run: one word, and where needed a sentence with what happened and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.runtime.runs.directory import FAILED, RunInfo
from chimbuko.viz.live.totals import Sums, Totals

STALE_AFTER_S = 5.0
STALE_AFTER_PERIODS = 5
BEHIND_AFTER_S = 5.0

State = Literal["live", "behind", "stale", "ended"]


class Status(msgspec.Struct, frozen=True):
    """Content of the status bar. Durations and times in µs."""

    state: State
    sentence: str
    version: int
    zero_us: int
    clock_us: int
    """Analysed trace time since its start, in µs."""
    lag_us: int | None
    """Age of the newest analysed step in µs; None if the trace was recorded before the run."""
    last_step: int | None
    steps: int
    """Number of analysed steps, of all ranks together."""
    events: int
    """Number of rows of traces that were read."""
    calls: int
    ranks: int
    ranks_reporting: int
    anomalies: int
    loss: float | None
    """Share of steps that were not analysed; None while no stream has said."""
    losses: dict[str, int]


def status(
    totals: Totals,
    run: RunInfo,
    now_us: int,
    silence_s: float,
    broker_lost_s: float | None,
    silent_agents: Sequence[str] = (),
    is_last: bool = False,
) -> Status:
    """Return the status of a run.

    Parameters
    ----------
    now_us
        The time now, µs since the epoch.
    silence_s
        Seconds since anything new was heard of the run.
    broker_lost_s
        Seconds since the broker was last reached; None while it answers, or where there is none.
    silent_agents
        Nodes of agents that have not spoken for long.
    is_last
        Whether the server has sent its last frame.
    """
    zero_us = run.started_us if totals.zero_us is None else totals.zero_us
    newest_us = zero_us if totals.newest_us is None else totals.newest_us
    ended = is_last or run.state != "running"
    is_live_trace = newest_us >= run.started_us
    lag_us = max(0, now_us - newest_us) if is_live_trace and not ended and totals.recent else None
    sums = totals.sums
    state, sentence = _judge(sums, run, ended, lag_us, silence_s, broker_lost_s, silent_agents)
    return Status(
        state=state,
        sentence=sentence,
        version=totals.version,
        zero_us=zero_us,
        clock_us=newest_us - zero_us,
        lag_us=lag_us,
        last_step=sums.last_step,
        steps=sums.steps,
        events=sums.events,
        calls=sums.calls,
        ranks=sums.ranks,
        ranks_reporting=sums.reporting,
        anomalies=sums.anomalies,
        loss=sums.loss,
        losses=sums.losses,
    )


def _judge(
    sums: Sums,
    run: RunInfo,
    ended: bool,
    lag_us: int | None,
    silence_s: float,
    broker_lost_s: float | None,
    silent_agents: Sequence[str],
) -> tuple[State, str]:
    if ended:
        return "ended", _end(run)
    if broker_lost_s is not None and broker_lost_s > STALE_AFTER_S:
        return "stale", (
            f"The run's broker has not answered for {broker_lost_s:.0f} s. "
            "Shown: what was known then. Is the run's machine up? The page goes on by itself."
        )
    silent = _silent(sums)
    if silence_s > max(STALE_AFTER_S, STALE_AFTER_PERIODS * run.config.period_us / 1e6):
        last = sums.last_step
        said = "No step yet" if last is None else f"No step for {silence_s:.0f} s (last: {last:,})"
        why = _silent_agents(silent_agents) or silent or "The application ended, hangs, or agents are silent."
        return "stale", f"{said}. {why}"
    if silent_agents:
        return "live", _silent_agents(silent_agents)
    if lag_us is not None and lag_us > BEHIND_AFTER_S * 1e6:
        return "behind", f"Analysis {lag_us / 1e6:.0f} s behind the application."
    return "live", silent


def _silent_agents(nodes: Sequence[str]) -> str:
    """Return a sentence with the nodes whose agents do not report; empty if all do."""
    if not nodes:
        return ""
    which = f"The agent of {nodes[0]} is" if len(nodes) == 1 else f"{len(nodes)} agents are"
    also = "" if len(nodes) == 1 else f", that of {nodes[0]} among them"
    return f"{which} silent{also}: stopped or killed? See the logs of the run."


def _silent(sums: Sums) -> str:
    """Return a sentence with the ranks that report no step, and the function that the first of them is in;
    empty where there is none.
    """
    if not sums.silent:
        return ""
    (program, rank), silence = next(iter(sums.silent.items()))
    function = shown_name(silence.function)
    doing = f"it is in {function}" if function else "it is in no call that is known"
    others = f" {len(sums.silent) - 1} more are silent." if len(sums.silent) > 1 else ""
    return f"Rank {program}:{rank} gives no step, {doing}.{others}"


def _end(run: RunInfo) -> str:
    if run.state == "running":
        return "The application ended; what was found last is being stored."
    if run.state == "interrupted":
        return "Interrupted; what had been found is kept."
    if run.state == FAILED:
        return "The analysis could not begin; the program was not started."
    if run.state == "imported":
        return "Imported."
    return "Finished." if run.exit_code is None else f"Finished, exit {run.exit_code}."
