"""How the interpreter says that a function begins and ends, and which functions are recorded."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chimbuko.instrument.tracer.functions import Recorder
    from chimbuko.instrument.tracer.monitoring import MonitoringHook
    from chimbuko.instrument.tracer.profiling import ProfilingHook


def hook_of(
    recorder: Recorder, include: tuple[str, ...], with_builtins: bool
) -> ProfilingHook | MonitoringHook:
    """The hook that costs the program least. Its parameters are those of ``ProfilingHook``."""
    from chimbuko.instrument.tracer.monitoring import MonitoringHook, free_number
    from chimbuko.instrument.tracer.profiling import ProfilingHook

    # Of builtins Python says to monitors what is called, whatever it is, and at profiling hooks only these.
    number = None if with_builtins else free_number()
    if number is None:
        return ProfilingHook(recorder, include, with_builtins)
    return MonitoringHook(recorder, include, number)
