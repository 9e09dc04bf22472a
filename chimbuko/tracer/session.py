"""The one recording of this process: its start and end, and what a fork means to it."""

from __future__ import annotations

import atexit
import os
import sys

from chimbuko.errors import ChimbukoError
from chimbuko.trace.tau import WriterSettings
from chimbuko.tracer.functions import FunctionTracing
from chimbuko.tracer.recorder import Recorder
from chimbuko.tracer.surroundings import program_name, rank_from

active: Recorder | None = None
"""The recording, or None while nothing is recorded."""

_functions: FunctionTracing | None = None


def is_active() -> bool:
    """Whether calls are being recorded."""
    return active is not None


def start(program: str | None = None, rank: int | None = None) -> None:
    """Begin to record regions, decorated functions, messages and counters of this process.

    Where the stream goes is said by TAU's variables (``TAU_ADIOS2_FILENAME``, ``TAU_ADIOS2_ENGINE``
    and so on). A program is never stopped by its tracing: what goes wrong is one line on stderr.
    Starting while active does nothing; starting again after ``stop`` writes the stream anew.

    Parameters
    ----------
    program
        Names the stream; by default the script's base name without ``.py``.
    rank
        By default what the launcher says: ``CHIMBUKO_RANK``, or that of MPI, PMI or Slurm, else 0.
    """
    global active
    if active is not None:
        return
    chosen_rank = rank_from(os.environ) if rank is None else rank
    try:
        settings = WriterSettings.from_environment(os.environ)
        active = Recorder(program or program_name(sys.argv[0]), chosen_rank, settings.select)
    except (ChimbukoError, OSError, RuntimeError) as error:
        print(f"chimbuko: rank {chosen_rank} is not traced: {error}", file=sys.stderr)


def stop() -> None:
    """End the recording and complete its stream; at the program's end this happens by itself."""
    global active, _functions
    if _functions is not None:
        _functions.remove()
    recorder, active, _functions = active, None, None
    if recorder is not None:
        recorder.stop()


def trace_functions(include: tuple[str, ...], with_builtins: bool) -> None:
    """Record calls of the program's functions too, as long as the recording is active."""
    global _functions
    if active is not None:
        _functions = FunctionTracing(active, include, with_builtins)
        _functions.install()


def start_from_environment() -> None:
    """Begin where ``CHIMBUKO_TRACE`` says so; processes started from here shall not, into the same stream."""
    if os.environ.pop("CHIMBUKO_TRACE", "0") not in ("", "0"):
        start()


def _abandon_in_child() -> None:
    """A forked child is not recorded: its parent's stream is not its own."""
    global active, _functions
    if _functions is not None:
        _functions.remove()
    recorder, active, _functions = active, None, None
    if recorder is not None:
        recorder.abandon()


atexit.register(stop)
os.register_at_fork(after_in_child=_abandon_in_child)
