"""Recording of this process, of which there is one at most: its start, its end, and its part in a fork."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from functools import partial

from chimbuko.instrument.hooks.choice import hook_of
from chimbuko.instrument.hooks.pauses import Pauses
from chimbuko.instrument.hooks.stillthreads import LOADING
from chimbuko.instrument.tracer import children
from chimbuko.instrument.tracer.eventrecorder import LONGEST_END_S, Recorder
from chimbuko.instrument.tracer.family import FAMILY_VARIABLE, FIRST_VARIABLE, Family, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from chimbuko.instrument.hooks.monitoring import MonitoringHook
    from chimbuko.instrument.hooks.profiling import ProfilingHook

LONGEST_LOADING_S = 2.0
"""Longest wait of a fork for modules that a thread of ours loads, which takes milliseconds."""
BUDGET = "Tracer's Budget"
"""Key of metadata: part of the time that recording functions may cost, or why there is no such limit."""

active: Recorder | None = None
"""Recording of this process; None while nothing is recorded."""

_ending: Recorder | None = None
"""Recording that is being ended, or has ended."""

_functions: ProfilingHook | MonitoringHook | None = None
_pauses: Pauses | None = None
_forked_for: tuple[Family, int] | None = None
"""Family, and the member that started this process, in a server that forks processes of the program."""


def is_active() -> bool:
    """Whether calls are being recorded."""
    return active is not None


def may_record() -> bool:
    """Whether calls are being recorded, or will be in processes that this one forks for the program."""
    return active is not None or _forked_for is not None


def start(program: str | None = None, rank: int | None = None, writers: str | None = None) -> None:
    """Begin to record regions, decorated functions, messages and counters of this process.

    TAU's variables (``TAU_ADIOS2_FILENAME``, ``TAU_ADIOS2_ENGINE`` and so on) say where the stream goes.
    Tracing never stops a program: what goes wrong is one line on stderr. ``start`` does nothing while a
    recording is active; after ``stop`` it writes the stream anew.

    Parameters
    ----------
    program
        Name of the program in that of the stream; by default the script's base name without ``.py``.
    rank
        Rank; by default that of the launcher: ``CHIMBUKO_RANK``, or that of MPI, PMI or Slurm, else 0.
    writers
        Module whose ``main`` starts the writers of the streams; by default those for a program that nobody
        else records.
    """
    global active
    if active is not None:
        return
    # Imported only here: processes that the program starts never come here, and must not pay for the imports.
    import subprocess

    from chimbuko.capture.trace.tausettings import WriterSettings
    from chimbuko.core.errors import ChimbukoError
    from chimbuko.instrument.tracer.processmetadata import program_name
    from chimbuko.instrument.tracer.writerserverstart import WRITER_SERVER
    from chimbuko.runtime.process.ranks import rank_from

    chosen_rank = rank_from(os.environ) if rank is None else rank
    try:
        settings = WriterSettings.from_environment(os.environ)
        script = sys.argv[0]
        family = _family(program or program_name(script), chosen_rank, script, writers or WRITER_SERVER)
        recorder = Recorder(family, settings.select)
        recorder.join()
    except (ChimbukoError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"chimbuko: rank {chosen_rank} is not traced: {error}", file=sys.stderr)
        return
    active = recorder
    family.enter(os.environ)
    _watch()


def _family(program: str, rank: int, script: str, writers: str) -> Family:
    from chimbuko.instrument.tracer.processmetadata import script_folder
    from chimbuko.instrument.tracer.writerserverstart import start_writer_server

    return Family(start_writer_server(writers), program, rank, script_folder(script), sys.executable)


def hand_over(
    environment: MutableMapping[str, str],
    program: str,
    rank: int,
    script: str,
    writers: str,
    include: tuple[str, ...] | None,
    with_builtins: bool,
) -> None:
    """Change an environment so that the Python that this process becomes in it records itself.

    The parameters are those of ``new_family``, which may raise the same errors.
    """
    family = new_family(environment, program, rank, script, writers, include, with_builtins)
    family.enter(environment)
    environment[FIRST_VARIABLE] = str(os.getpid())


def new_family(
    environment: MutableMapping[str, str],
    program: str,
    rank: int,
    script: str,
    writers: str,
    include: tuple[str, ...] | None,
    with_builtins: bool,
) -> Family:
    """Return the settings by which another process records itself, whose writers are started here.

    Parameters
    ----------
    environment
        Environment with TAU's settings.
    program, rank, writers
        As of ``start``.
    script
        Script that the Python will run; empty for a module or a text.
    include, with_builtins
        As of ``trace_functions``; ``include`` is None if no functions are recorded.

    Raises
    ------
    ChimbukoError, OSError, subprocess.SubprocessError
        Nothing can be recorded.
    """
    from chimbuko.capture.trace.tausettings import WriterSettings

    WriterSettings.from_environment(environment)
    family = _family(program, rank, script, writers)
    family.include, family.with_builtins = include, with_builtins
    if include is not None and not with_builtins:
        family.library = _library(None)
    return family


def attach(settings: str) -> None:
    """Record this process from now on: another one has brought it to call this, in the midst of its work.

    Parameters
    ----------
    settings
        Text of a family (``Family.text``) of which it is the first member.
    """
    global active
    if active is None:
        recorder = Recorder(Family.from_text(settings), select=None, is_forked=True, is_attached=True)
        recorder.join()
        active = recorder
        _trace_functions_of(active)
        _watch()


def detach() -> None:
    """End a recording that ``attach`` began, and leave the process as it was."""
    stop()
    children.unwatch()
    children.unwatch_ends()


def start_as_member(is_first: bool) -> None:
    """Record this process, which a member of a family has started, if it is a part of the program.

    Parameters
    ----------
    is_first
        Whether no member has started it, but ``chimbuko trace`` has become it.
    """
    global active, _forked_for
    family = Family.from_text(os.environ[FAMILY_VARIABLE])
    module = children.module_of(sys.orig_argv)
    if module == children.FORK_SERVER:
        _forked_for = family, os.getppid()
    elif is_first or not children.is_helper(module):
        recorder = Recorder(family, select=None, parent_pid=0 if is_first else os.getppid())
        if is_first:
            recorder.join()
        active = recorder
        _trace_functions_of(active)
        _watch()
        if children.is_worker():
            children.end_by_signal(stop)


def stop(longest_s: float = LONGEST_END_S) -> None:
    """End the recording and complete its stream; at the end of the program this happens by itself.

    Parameters
    ----------
    longest_s
        Longest wait for the end of the stream, which is completed also without a wait.
    """
    global active, _ending, _functions
    _record_pauses_for(None)
    if _functions is not None:
        # A hook that is gone for the last 0.1 s has not been missed yet.
        _functions.look()
        _functions.remove()
    # A signal that ends the process may come while this waits, and then waits for the same.
    _ending, active, _functions = active or _ending, None, None
    if _ending is not None:
        leave(os.environ)
        _ending.stop(longest_s)


def _watch() -> None:
    children.watch(_started)
    children.watch_ends(partial(stop, children.LONGEST_END_S), _stop_before_exec)


def _stop_before_exec() -> None:
    recorder = active
    stop(children.LONGEST_END_S)
    if recorder is not None:
        # What this process becomes is a part of the program.
        recorder.family.enter(os.environ)


def trace_functions(include: tuple[str, ...], with_builtins: bool) -> None:
    """Record calls of the program's functions, too, as long as the recording is active."""
    if active is not None:
        family = active.family
        family.include, family.with_builtins = include, with_builtins
        if not with_builtins:
            # The compiler that builds it, the first time, is no process of the program.
            children.unwatch()
            family.library = _library(active)
            children.watch(_started)
        family.enter(os.environ)
        _trace_functions_of(active)


def _library(recorder: Recorder | None) -> str:
    """Return the path of the library that keeps to a budget; empty where it cannot be built, which the
    recorder of this process notes.
    """
    # Only here, as in ``start``: processes that the program starts are told the path.
    from chimbuko.core.errors import ChimbukoError
    from chimbuko.instrument.hooks.callbudget import OVERHEAD_VARIABLE
    from chimbuko.instrument.tracer.hooklibrary import hook_library

    try:
        return str(hook_library())
    except ChimbukoError as error:
        if recorder is not None:
            recorder.describe_process(BUDGET, f"none, all functions are recorded: {error}")
        if OVERHEAD_VARIABLE in os.environ:
            print(f"chimbuko: all functions are recorded, whatever it costs: {error}", file=sys.stderr)
        return ""


def _trace_functions_of(recorder: Recorder) -> None:
    global _functions
    family = recorder.family
    if family.include is not None:
        _record_pauses_for(recorder)
        _functions = hook_of(recorder, family.include, family.with_builtins, family.library)
        recorder.when_lost = _functions.end
        recorder.before_handover = _functions.look
        _functions.install(recorder.is_forked)


def _record_pauses_for(recorder: Recorder | None) -> None:
    """Record pauses for this recorder and no other; for none where it is None."""
    global _pauses
    if _pauses is not None:
        _pauses.remove()
    _pauses = None if recorder is None else Pauses(recorder, recorder.family.library)
    if _pauses is not None and recorder is not None:
        # A collection may come while it is read, and a module that is half loaded cannot be asked.
        recorder.selection()
        _pauses.install()


def start_from_environment() -> None:
    """Begin if ``CHIMBUKO_TRACE`` is set, and unset it: child processes must not write this stream."""
    if os.environ.pop("CHIMBUKO_TRACE", "0") not in ("", "0"):
        start()


def _started() -> children.StartedPrograms | None:
    children.watch_terminations()
    return active.children if active is not None else None


def _await_loading() -> None:
    """Wait for a thread of ours that loads modules, and may wait for one whose import forks."""
    LOADING.acquire(timeout=LONGEST_LOADING_S)


def _note_fork() -> None:
    # Where it has waited in vain it has nothing to give back.
    with suppress(RuntimeError):
        LOADING.release()
    if active is not None:
        active.children.forks += 1
        children.watch_terminations()


def _continue_in_child() -> None:
    """Begin a recording of its own in a forked child, if its parent has one."""
    global active, _ending, _functions
    LOADING._at_fork_reinit()  # type: ignore[attr-defined]
    parent, active, functions, _functions = active, None, _functions, None
    _ending = None
    try:
        _record_pauses_for(None)
        if functions is not None:
            functions.remove()
        if parent is not None:
            parent.abandon()
            # Not os.getppid: the parent may have ended already.
            active = Recorder(
                parent.family, parent.select, parent.pid, is_forked=True, older_siblings=parent.children.forks
            )
        elif _forked_for is not None:
            family, pid = _forked_for
            active = Recorder(family, select=None, parent_pid=pid)
        if active is not None:
            _trace_functions_of(active)
            _end_with_multiprocessing(active)
    except Exception:
        # An error must not harm the child; its parent reports that it was not traced.
        active = None


def _end_with_multiprocessing(recorder: Recorder) -> None:
    """End the recording by a finalizer in children of multiprocessing: their interpreters skip their end."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        # multiprocessing forgets its finalizers after a fork, and then calls this.
        util.register_after_fork(recorder, lambda _: _end_worker(util))


def _end_worker(util: Any) -> None:
    util.Finalize(None, stop, exitpriority=-1000)
    children.end_by_signal(stop)


atexit.register(stop)
os.register_at_fork(before=_await_loading, after_in_parent=_note_fork, after_in_child=_continue_in_child)
