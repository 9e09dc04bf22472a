"""Choice of the interpreter's hook that reports the begin and the end of functions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chimbuko.instrument.hooks.functions import Recorder
    from chimbuko.instrument.hooks.monitoring import MonitoringHook
    from chimbuko.instrument.hooks.profiling import ProfilingHook


def hook_of(
    recorder: Recorder, include: tuple[str, ...], with_builtins: bool
) -> ProfilingHook | MonitoringHook:
    """Return the hook that costs the program least. The parameters are those of ``ProfilingHook``."""
    from chimbuko.instrument.hooks.monitoring import MonitoringHook, free_number
    from chimbuko.instrument.hooks.profiling import ProfilingHook

    # To monitoring Python reports calls of all callables, and to profiling hooks only those of builtins.
    number = None if with_builtins else free_number()
    if number is None:
        return ProfilingHook(recorder, include, with_builtins)
    return MonitoringHook(recorder, include, number)
