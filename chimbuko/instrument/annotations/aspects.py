"""Decorator and functions with which a program annotates its critical path.

The events of a call can hold its CPU time and memory.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import resource
import sys
from _thread import get_native_id
from time import perf_counter_ns, thread_time_ns

from chimbuko.core.errors import ConfigError
from chimbuko.instrument import tracer
from chimbuko.instrument.annotations.eventfile import UNUSED, head
from chimbuko.instrument.annotations.options import VARIABLE, parse_options
from chimbuko.instrument.annotations.pointcuts import FLOWS, POINTCUTS, Advice, Flows
from chimbuko.instrument.annotations.tracefile import TraceFile
from chimbuko.instrument.tracer.connection import KeptDescriptor
from chimbuko.instrument.tracer.pausing import by_turns, pauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Self

    from chimbuko.instrument.annotations.eventfile import Usage


# Regions of Caliper for annotated calls, where the Python package that is built with it can be imported.


class CaliperRegions:
    """Functions of Caliper that begin and end regions.

    Raises
    ------
    ConfigError
        Caliper's Python package is missing.
    """

    def __init__(self) -> None:
        try:
            from pycaliper.instrumentation import begin_region, end_region
        except ImportError as error:
            raise ConfigError(
                "caliper-enable needs pycaliper, of a Caliper that is built with WITH_PYTHON_BINDINGS=ON "
                f"({error})"
            ) from error
        self.begin: Callable[[str], object] = begin_region
        self.end: Callable[[str], object] = end_region

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function with each call, or each turn of one, as a region."""
        if pauses(function):
            return by_turns(function, lambda: CaliperRegion(self, name))
        begin, end = self.begin, self.end

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            begin(name)
            try:
                return function(*args, **kwargs)
            finally:
                end(name)

        return noted


class CaliperRegion:
    """Context that is one region."""

    __slots__ = ("_name", "_regions")

    def __init__(self, regions: CaliperRegions, name: str) -> None:
        self._regions = regions
        self._name = name

    def __enter__(self) -> None:
        self._regions.begin(self._name)

    def __exit__(self, *error: object) -> None:
        self._regions.end(self._name)


_PAGE_KB = os.sysconf("SC_PAGE_SIZE") / 1000
_memory: KeptDescriptor | None = None

Reading = tuple[int, float, float, int]
"""Reading of the clocks: wall time in ns, CPU time of the process in the program and in the kernel in s, and
that of the thread in ns.
"""


def read() -> Reading:
    """Read the clocks, in the calling thread."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return perf_counter_ns(), used.ru_utime, used.ru_stime, thread_time_ns()


def since(before: Reading) -> Usage:
    """Return the usage since a reading in the same thread."""
    begun_ns, user_s, system_s, thread_ns = before
    now_ns, user_now_s, system_now_s, thread_now_ns = read()
    share = 100.0 / max(now_ns - begun_ns, 1)
    in_kernel = 1e9 * share * (system_now_s - system_s)
    in_program = 1e9 * share * (user_now_s - user_s)
    return in_program + in_kernel, in_kernel, share * (thread_now_ns - thread_ns), _resident_kb()


def _resident_kb() -> float:
    """Return the resident memory of the process in 1,000 bytes; 0 if the system does not say."""
    global _memory
    try:
        if _memory is None or not _memory.is_ours():
            _memory = KeptDescriptor(os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC))
        return int(os.pread(_memory.number, 200, 0).split()[1]) * _PAGE_KB
    except OSError:
        return 0


def forget() -> None:
    """Close the open file in a forked child: it describes the parent."""
    global _memory
    if _memory is not None:
        _memory.close()
    _memory = None


os.register_at_fork(after_in_child=forget)


SYNC_PHASES = {"before": "B", "after": "E"}
ASYNC_PHASES = {"before": "b", "instant": "n", "after": "e"}
DEFAULT_ID = 123
"""Id of an asynchronous event without one, as in PerfFlowAspect."""

_numbers = itertools.count(1)
_flows = Flows()
_regions: dict[int, list[tuple[str, tracer.region]]] = {}
"""Open regions of ``sync_event``, by native id of their thread."""


def _from_environment() -> tuple[TraceFile | None, CaliperRegions | None]:
    """Return where annotations go; wrong options never stop a program."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None, None
    try:
        options = parse_options(text)
    except ConfigError as error:
        print(f"chimbuko: {error}; annotations are not written", file=sys.stderr)
        return None, None
    caliper = None
    if options.is_for_caliper:
        try:
            caliper = CaliperRegions()
        except ConfigError as error:
            print(f"chimbuko: {VARIABLE}: {error}", file=sys.stderr)
    return TraceFile(options) if options.is_enabled else None, caliper


_file, _caliper = _from_environment()
if _file is not None:
    atexit.register(_file.close)


def critical_path(pointcut: str | Callable[..., Any] = "around", scope: str = "", flow: str = "") -> Any:
    """Annotate a function: ``@critical_path``, or ``@critical_path(pointcut="around", scope="", flow="")``.

    In the live stream each call is an ENTRY and an EXIT, whatever the pointcut; each turn of a generator or a
    coroutine, from its resumption until it pauses, is a call. In the trace file the pointcut decides. A call
    that ends by an exception ends in both, too.

    Parameters
    ----------
    pointcut
        One of ``POINTCUTS``. ``around`` gives ``B`` and ``E`` (one ``X`` where ``log-event=Compact``),
        ``before`` gives ``B`` alone and ``after`` gives ``E`` alone. Their asynchronous forms give ``b`` and
        ``e`` with a number for each call; such calls may overlap, and a coroutine's include its pauses.
    scope
        Scope that distinguishes the numbers of asynchronous calls.
    flow
        One of ``FLOWS``: ``out`` for a function that hands something on, ``in`` for one that takes it.

    Raises
    ------
    ConfigError
        The pointcut or the flow is unknown.
    """
    if callable(pointcut):
        return _annotate(pointcut, Advice())
    if pointcut not in POINTCUTS:
        raise ConfigError(f"critical_path: pointcut is one of {', '.join(POINTCUTS)}, not {pointcut!r}")
    if flow not in FLOWS:
        raise ConfigError(f"critical_path: flow is one of {', '.join(filter(None, FLOWS))}, not {flow!r}")
    return functools.partial(_annotate, advice=Advice(pointcut, scope, flow))


def sync_event(pointcut: str, name: str, category: str) -> None:
    """Begin (``before``) or end (``after``) the block ``name`` in the calling thread.

    Raises
    ------
    ConfigError
        The pointcut is unknown.
    """
    phase = _phase(SYNC_PHASES, pointcut)
    if _file is not None:
        _put(_file, head(name, category, phase), "")
    if _caliper is not None:
        (_caliper.begin if phase == "B" else _caliper.end)(name)
    if not tracer.is_active():
        return
    regions = _regions.setdefault(get_native_id(), [])
    if phase == "B":
        regions.append((name, tracer.region(name)))
        regions[-1][1].__enter__()
    elif regions and regions[-1][0] == name:
        regions.pop()[1].__exit__(None, None, None)


class region:
    """Context manager that records its block as ``@critical_path`` records a call.

    Blocks of one thread have to nest, so a block must not contain an ``await``.

    Parameters
    ----------
    category
        Category of the events; by default the name of the block's module.
    """

    __slots__ = ("_contexts",)

    def __init__(self, name: str, category: str | None = None) -> None:
        contexts: list[AbstractContextManager[Any]] = []
        if tracer.is_active():
            contexts.append(tracer.region(name))
        if _caliper is not None:
            contexts.append(CaliperRegion(_caliper, name))
        if _file is not None:
            _file.begin()
            if category is None:
                category = str(sys._getframe(1).f_globals.get("__name__", ""))
            contexts.append(RecordedCall(_recorder_of_block(_file, name, category)))
        self._contexts: Sequence[AbstractContextManager[Any]] = contexts

    def __enter__(self) -> Self:
        for context in reversed(self._contexts):
            context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for context in self._contexts:
            context.__exit__(*error)


def async_event(
    pointcut: str, name: str, category: str, scope: str | None = None, id: int | None = None
) -> None:
    """Write an asynchronous event (``before``, ``instant`` or ``after``); the live stream has no such events.

    Raises
    ------
    ConfigError
        The pointcut is unknown.
    """
    phase = _phase(ASYNC_PHASES, pointcut)
    if _file is not None:
        tail = f', "scope": {json.dumps(scope)}' if scope else ""
        number = json.dumps(id or DEFAULT_ID)
        _put(_file, head(name, category, phase), f'{tail}, "id": {number}')


@functools.lru_cache
def _recorder_of_block(file: TraceFile, name: str, category: str) -> CallRecorder:
    return CallRecorder(file, name, category, Advice())


def _phase(phases: dict[str, str], pointcut: str) -> str:
    if pointcut not in phases:
        raise ConfigError(f"pointcut is one of {', '.join(phases)}, not {pointcut!r}")
    return phases[pointcut]


def _put(file: TraceFile, start: str, tail: str) -> None:
    file.begin()
    file.put((start, file.thread.id, perf_counter_ns(), tail))


def _annotate(function: Callable[..., Any], advice: Advice) -> Callable[..., Any]:
    """Return the annotated function; the function itself where its calls are recorded nowhere."""
    if tracer.may_record():
        function = tracer.traced(function)
    name, category = getattr(function, "__qualname__", repr(function)), getattr(function, "__module__", None)
    if _caliper is not None:
        function = _caliper.around(function, name)
    if _file is None:
        return function
    _file.begin()
    recorder = CallRecorder(_file, name, category or "", advice)
    if pauses(function):
        return by_turns(function, lambda: RecordedCall(recorder), is_whole=advice.is_async)
    if advice == Advice() and not _file.options.has_usage:
        return _compact(recorder, function) if _file.options.is_compact else _verbose(recorder, function)

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        with RecordedCall(recorder):
            return function(*args, **kwargs)

    return noted


def _verbose(recorder: CallRecorder, function: Callable[..., Any]) -> Callable[..., Any]:
    begin, end = recorder.head("B"), recorder.head("E")
    put, clock, thread = recorder.file.put, perf_counter_ns, recorder.file.thread

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        put((begin, thread.id, clock(), ""))
        try:
            return function(*args, **kwargs)
        finally:
            put((end, thread.id, clock(), ""))

    return noted


def _compact(recorder: CallRecorder, function: Callable[..., Any]) -> Callable[..., Any]:
    start, put, clock, thread = recorder.head("X"), recorder.file.put, perf_counter_ns, recorder.file.thread

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        begun_ns = clock()
        try:
            return function(*args, **kwargs)
        finally:
            put((start, thread.id, begun_ns, clock() - begun_ns))

    return noted


class CallRecorder:
    """Recorder of the calls of one function, or of one block.

    Parameters
    ----------
    file
        File to which the events are written.
    name, category
        Name of the function, and its module.
    """

    def __init__(self, file: TraceFile, name: str, category: str, advice: Advice) -> None:
        self.file = file
        self.head = functools.partial(head, name, category)
        """Function that returns the head of a line for a phase."""
        self._flow_heads = {phase: head("flow", category, phase) for phase in "sf"}
        self._flow_phases = FLOWS[advice.flow]
        self._is_async = advice.is_async
        self._is_whole = advice.is_whole(file.options.is_compact)
        self._phases = ("", "") if self._is_whole else advice.phases
        self._heads = {phase: self.head(phase) for phase in ("X", "C", *advice.phases)}
        self._has_usage = file.options.has_usage and advice.pointcut == "around"
        self._scope = f', "scope": {json.dumps(advice.scope)}' if advice.scope else ""

    def begin(self) -> tuple[int, str, Reading | None]:
        """Record the beginning of a call; return its time, the tail of its lines, and the clocks' reading."""
        tail = f'{self._scope}, "id": {next(_numbers)}' if self._is_async else ""
        now_ns = perf_counter_ns()
        self._flow(self._flow_phases[0], now_ns)
        if self._phases[0]:
            self._note(self._phases[0], now_ns, tail)
        return now_ns, tail, read() if self._has_usage else None

    def end(self, begun_ns: int, tail: str, reading: Reading | None) -> None:
        """Record the end of a call, given what :meth:`begin` returned."""
        now_ns = perf_counter_ns()
        if reading is not None:
            self._note("C", begun_ns, since(reading))
            self._note("C", now_ns, UNUSED)
        if self._is_whole:
            self._note("X", begun_ns, now_ns - begun_ns)
        elif self._phases[1]:
            self._note(self._phases[1], now_ns, tail)
        self._flow(self._flow_phases[1], now_ns)

    def _note(self, phase: str, time_ns: int, tail: str | int | Usage) -> None:
        self.file.put((self._heads[phase], self.file.thread.id, time_ns, tail))

    def _flow(self, phase: str, time_ns: int) -> None:
        if not phase or (number := _flows.number_of(phase)) is None:
            return
        tail = f', "id": {number}, "bp": "e"'
        self.file.put((self._flow_heads[phase], self.file.thread.id, time_ns, tail))


class RecordedCall:
    """Context that records one call, or one turn of it."""

    __slots__ = ("_recorder", "_state")

    def __init__(self, recorder: CallRecorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        self._state = self._recorder.begin()

    def __exit__(self, *error: object) -> None:
        self._recorder.end(*self._state)
