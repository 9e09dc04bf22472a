"""Parts of a run that were not seen or not used, as lines of the summary that say what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from chimbuko.core.calls.census import TOO_DEEP
from chimbuko.core.calls.record import (
    BEYOND_BUDGET,
    NO_ROOM_OPEN_CALLS,
    NO_ROOM_RECORDERS,
    NO_ROOM_RECORDS,
    NO_ROOM_STEPS,
    UNREAD_STREAMS,
    UNREADABLE_STREAMS,
)
from chimbuko.core.traceschema import (
    ENDING,
    LEFT_OUT_FUNCTIONS,
    NOT_RECORDED,
    OTHER_FUNCTIONS,
    OTHER_TIMER,
    SHARED_ROW,
    UNTRACED_CHILDREN,
)
from chimbuko.core.units import number_of
from chimbuko.provenance.query.run import Provenance

KILLED = "died (killed"
"""Beginning of what is said of a rank that was ended from outside."""
_ABORTED = "called MPI_Abort"


def death_lines(ended: Mapping[str, str]) -> list[str]:
    """Return a line for each rank that died, those first that ended by themselves.

    Where one rank of a program did, those of its program that were killed stand in its line.

    Parameters
    ----------
    ended
        How each rank ended, by stream, which is ``program:rank``.
    """
    causes = {stream: text for stream, text in ended.items() if not text.startswith(KILLED)}
    programs = [_program(stream) for stream in causes]
    victims: dict[str, list[str]] = {}
    for stream in ended.keys() - causes.keys():
        if programs.count(_program(stream)) == 1:
            victims.setdefault(_program(stream), []).append(stream)
    lines = [
        f"Died: rank {stream} {text}{_with(victims.get(_program(stream), []), text)}"
        for stream, text in causes.items()
    ]
    lines += [
        f"Died: rank {stream} {text}"
        for stream, text in ended.items()
        if stream not in causes and _program(stream) not in victims
    ]
    more = len(lines) - MOST_SHOWN
    return lines[:MOST_SHOWN] + ([f"... and {more} further ranks died"] if more > 0 else [])


def _program(stream: str) -> str:
    return stream.partition(":")[0]


def _with(victims: Sequence[str], text: str) -> str:
    if not victims:
        return ""
    in_order = sorted(victims, key=lambda stream: int(stream.rpartition(":")[2]))
    more = f" and {len(victims) - MOST_SHOWN} more" if len(victims) > MOST_SHOWN else ""
    verb = "it ended" if text.startswith(_ABORTED) else "with it ended"
    return f"; {verb} rank {', '.join(in_order[:MOST_SHOWN])}{more}"


MOST_SHOWN = 5
Texts = Mapping[str, str]
"""Texts by stream, which is ``program:rank``."""


class TracerReports(msgspec.Struct, frozen=True):
    """Reports of tracers about the streams of a run."""

    untraced: Texts
    """Numbers and names of child processes of a rank that were not traced."""
    ended: Texts
    """Causes of the deaths of ranks, with the functions in which they died."""
    left_out: Texts
    """Functions that were called so often, and were so short, that they were not recorded any more."""
    unrecorded: Texts
    """Events for which there was no room."""
    sharing: Texts
    """Numbers of functions of a rank that share one row, as they are too many to be told apart."""
    sharing_calls: int
    """Calls of these functions, over all ranks."""


def tracer_reports(provenance: Provenance) -> TracerReports:
    """Read them from a store."""

    def texts(key: str) -> Texts:
        # Asked for by its beginning, "Ending" finds the "Ending Timestamp" of a program that is well, too.
        found = (m for m in provenance.metadata(key=key) if m.key == key)
        return {f"{m.program}:{m.rank}": m.value for m in found}

    sharing = texts(SHARED_ROW)
    functions = provenance.function_statistics() if sharing else []
    return TracerReports(
        untraced=texts(UNTRACED_CHILDREN),
        ended=texts(ENDING),
        left_out=texts(LEFT_OUT_FUNCTIONS),
        unrecorded=texts(NOT_RECORDED),
        sharing=sharing,
        sharing_calls=sum(function.calls for function in functions if function.name == OTHER_FUNCTIONS),
    )


def report_lines(reports: TracerReports) -> list[str]:
    """Return lines for people: of each kind of report the ranks with the most, or the first ones."""
    lines = death_lines(reports.ended)
    lines += _untraced_lines(reports.untraced)
    lines += [f"Left out: {text}, of rank {stream}" for stream, text in _most(reports.left_out)]
    lines += _more(reports.left_out, "left out functions")
    lines += [f"Not recorded: {text}, of rank {stream}" for stream, text in _most(reports.unrecorded)]
    return lines + _more(reports.unrecorded, "did not record all") + _sharing_lines(reports)


def _sharing_lines(reports: TracerReports) -> list[str]:
    if not reports.sharing:
        return []
    named = ", ".join(f"{_number(text):,} of rank {stream}" for stream, text in _most(reports.sharing))
    more = f", and those of {number} more ranks" if (number := len(reports.sharing) - MOST_SHOWN) > 0 else ""
    return [
        f"Together: functions beyond the first {OTHER_TIMER:,} of a rank ({named}{more}) are "
        f"'{OTHER_FUNCTIONS}' and are not judged, {number_of(reports.sharing_calls, 'calls')}; record fewer, "
        "'chimbuko filter' lists what to leave out"
    ]


def _most(texts: Texts) -> list[tuple[str, str]]:
    return sorted(texts.items(), key=lambda item: _number(item[1]), reverse=True)[:MOST_SHOWN]


def _more(texts: Texts, what: str) -> list[str]:
    return [f"... and {len(texts) - MOST_SHOWN} further ranks {what}"] if len(texts) > MOST_SHOWN else []


def _number(text: str) -> int:
    first = text.partition(" ")[0]
    return int(first) if first.isdecimal() else 0


def _untraced_lines(untraced: Texts) -> list[str]:
    if not untraced:
        return []
    named = "; ".join(f"{stream}: {text}" for stream, text in _most(untraced))
    more = f"; and of {len(untraced) - MOST_SHOWN} more ranks" if len(untraced) > MOST_SHOWN else ""
    total = sum(map(_number, untraced.values()))
    noun = "child process" if total == 1 else "child processes"
    return [f"Not traced: {total:,} {noun}, of rank {named}{more}"]


MAKE_ROOM = (
    "leave a core free for the analysis, or make the trace smaller: 'chimbuko filter' lists what to leave out"
)
_DAMAGED = "the trace holds what cannot be there; record it again, with a newer TAU if it is TAU's"
_IN_LOST_STEPS = "their other half was never recorded, or was in a step that was lost"
_NEEDS_ROOM = (
    "make room there, or set TMPDIR to a folder on local storage with more of it, some 10 MB for each rank"
)
_LOOK_INTO_LOGS = (
    "what ended them left no time to write the last moments, as SIGKILL does; see what the program said, and "
    "the logs of the run"
)

_CUT_OFF = "they were ended with the run, and what they did in their last moments had not been written"
_BROKEN_OFF = "they break off, as where a program was killed, or the run was ended before they were read"

MOST_NAMED = 5
"""Nodes that lost something, and ranks of each of them."""

HOW_TO_RECORD = (
    "Put 'chimbuko trace' in front of the program itself, inside a script that starts it, too, as in "
    "'chimbuko trace app.py' or 'mpirun -n 4 chimbuko trace ./app'. Under "
    "TAU, a program that is not linked with MPI needs 'tau_exec -T serial,pthread -adios2_trace'"
)


def no_stream_line(
    exit_code: int | None,
    is_interrupted: bool,
    has_problems: bool,
    is_over_sst: bool = False,
) -> str:
    """Return the line for a run in which nothing was recorded: what that most often means.

    Parameters
    ----------
    exit_code
        Exit code of the program, as far as it is known.
    has_problems
        Whether the summary names problems.
    is_over_sst
        Whether streams go over SST, where a program that ends before its readers are there leaves nothing.
    """
    if is_interrupted:
        return "No trace stream had appeared when the run was interrupted"
    if has_problems:
        return "No trace stream appeared: nothing recorded the program; the problems below say why"
    if is_over_sst:
        return (
            "No trace stream appeared in time: the program was over before the analysis could read it, and "
            "over SST nothing of it is kept; take --transport files. Or nothing recorded it. " + HOW_TO_RECORD
        )
    if not exit_code:
        return f"No trace stream appeared: nothing recorded the program. {HOW_TO_RECORD}"
    # Such as mpirun's, when a node has fewer cores than ranks.
    return (
        f"No trace stream appeared: the program ended with exit code {exit_code} before anything of it was "
        "recorded; see what it said above. If it did run, put 'chimbuko trace' in front of it"
    )


MISSED_STEPS = "steps never seen"
DROPPED_STEPS = "steps dropped unread"
WITHOUT_END = "streams without an end"

ADVICE: Mapping[str, str] = {
    MISSED_STEPS: f"a reader came after them, was replaced, or could not keep up; {MAKE_ROOM}",
    DROPPED_STEPS: (
        "they outgrew their limit, or the room that was left, before they were read: raise --trace-limit "
        f"and --node-limit, {MAKE_ROOM}"
    ),
    "rows of a timer whose name was in a lost step": (
        "TAU names a function once, in the step of its first call; what helps against lost steps helps here: "
        f"{MAKE_ROOM}"
    ),
    "rows of a timer not named yet": "the trace names functions later than they are called, or never",
    "rows of another program or rank": (
        "two programs may write one stream: number them, as with TAU_ADIOS2_FILENAME=$TAU_ADIOS2_FILENAME.1"
    ),
    "rows with an absurd thread": _DAMAGED,
    "rows with an unknown event type": _DAMAGED,
    "rows with an absurd timer": _DAMAGED,
    "rows whose time is absurd or runs backwards": _DAMAGED,
    "messages and counters with an absurd time": _DAMAGED,
    "EXIT without ENTRY": _IN_LOST_STEPS,
    "calls whose EXIT was lost": _IN_LOST_STEPS,
    TOO_DEEP: "a recursion is as deep as that; the time of these calls is in that of the calls around them",
    "messages outside of calls": "the calls that they belong to are left out by a select file, or were lost",
    "counters outside of calls": "the calls that they belong to are left out by a select file, or were lost",
    UNREAD_STREAMS: _NEEDS_ROOM,
    UNREADABLE_STREAMS: "raise the limit on memory or address space (ulimit -v), or use more nodes",
    NO_ROOM_STEPS: f"their calls are counted as far as there was room; {_NEEDS_ROOM}",
    NO_ROOM_RECORDS: f"they are counted, and nothing else is kept of them; {_NEEDS_ROOM}",
    BEYOND_BUDGET: (
        "the costliest of each node are recorded, and the others counted; take a store on a faster disk, or "
        "PostgreSQL with --store-writers, or flag less with --min-anomaly"
    ),
    NO_ROOM_RECORDERS: f"'chimbuko runs recall' has nothing of these ranks; {_NEEDS_ROOM}",
    NO_ROOM_OPEN_CALLS: f"calls of these ranks that hung were not reported; {_NEEDS_ROOM}",
    "launches forgotten before their GPU call": "the GPU is far behind its launches; all else is there",
    "records of GPU calls without their launch": (
        "their launches were left out by a select file, or came too long before; all else in them is there"
    ),
}
"""Explanation and advice for each kind of loss, by the name under which it is counted."""


class Loss(msgspec.Struct, frozen=True):
    """Loss of one kind."""

    text: str
    """Amount and kind of the loss."""
    advice: str
    """Explanation and advice; empty if there is nothing to say."""


def counted(kind: str, number: int) -> Loss:
    """Make a loss of a kind that is counted by stream."""
    return Loss(number_of(number, kind), ADVICE.get(kind, ""))


def unrecorded(anomalies: int) -> Loss:
    """Make a loss of anomalies that were counted only."""
    advice = "record more of them with --max-per-function, or take them for normal with --threshold-of"
    return Loss(f"records of {number_of(anomalies, 'anomalies')}, too many of their functions", advice)


def without_end(streams: list[str], is_interrupted: bool, is_recorded: bool) -> Loss:
    """Make a loss of streams that were not read to their end; in a run that was interrupted their programs
    had none.
    """
    named = ", ".join(streams[:MOST_NAMED]) + (", …" if len(streams) > MOST_NAMED else "")
    advice = _BROKEN_OFF if is_recorded else _CUT_OFF if is_interrupted else _LOOK_INTO_LOGS
    return Loss(f"the end of {number_of(len(streams), 'streams')} ({named})", advice)


def undelivered(agents: list[str]) -> Loss:
    """Return the loss of what agents on vanished nodes had found and not delivered, or had not read yet."""
    return Loss(
        f"what {', '.join(agents)} had not delivered",
        "nothing was heard of their nodes at the end; on one that is back 'chimbuko runs list' gives the "
        "command that delivers what was found there",
    )


def everything(steps: int) -> Loss:
    """Make a loss of every call: there was a stream, but no call was seen in it."""
    if steps:
        return Loss(
            "every call",
            f"none of them began and ended in what was read of the trace, {steps:,} steps; does it run long "
            "enough, and does a select file leave its functions in?",
        )
    return Loss(
        "every step",
        "each stream ended before its first step was read; does the program run long enough, and did it end "
        f"well? If so, {MAKE_ROOM}",
    )


class LossyStream(msgspec.Struct, frozen=True):
    """A stream of which something was lost."""

    name: str
    node: str
    losses: Mapping[str, int]
    """Amount lost, by kind."""


def place_lines(streams: Iterable[LossyStream]) -> list[str]:
    """Return lines for people that say where something was lost, one for each node, the worst first."""
    nodes: dict[str, list[LossyStream]] = {}
    for stream in sorted(streams, key=_extent, reverse=True):
        nodes.setdefault(stream.node, []).append(stream)
    lines = []
    for node, of_node in list(nodes.items())[:MOST_NAMED]:
        ranks = [
            f"rank {one.name}: {', '.join(number_of(number, kind) for kind, number in one.losses.items())}"
            for one in of_node[:MOST_NAMED]
        ]
        lines.append(f"  on {node}, {'; '.join(ranks)}{_and_more(len(of_node) - len(ranks), 'ranks')}")
    rest = _and_more(len(nodes) - len(lines), "nodes")
    return [*lines[:-1], lines[-1] + rest] if rest else lines


def _and_more(number: int, what: str) -> str:
    return f"; and {number:,} more {what}" if number else ""


def _extent(stream: LossyStream) -> int:
    return sum(stream.losses.values())


def loss_lines(losses: Iterable[Loss], otherwise: str) -> list[str]:
    """Return lines for people: one that names all losses, and one for each advice.

    Parameters
    ----------
    losses
        What was counted.
    otherwise
        State of the call data where that is nothing.
    """
    by_advice: dict[str, list[str]] = {}
    texts = []
    for loss in losses:
        texts.append(loss.text)
        by_advice.setdefault(loss.advice, []).append(loss.text)
    by_advice.pop("", None)
    return [
        f"Lost: {'; '.join(texts)}" if texts else f"Call data: {otherwise}",
        *(f"  {' and '.join(of_advice)}: {advice}" for advice, of_advice in by_advice.items()),
    ]
