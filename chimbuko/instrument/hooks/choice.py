"""Choice of the interpreter's hook that reports the begin and the end of functions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chimbuko.instrument.hooks.callbudget import CallBudget
    from chimbuko.instrument.hooks.functions import Recorder
    from chimbuko.instrument.hooks.monitoring import MonitoringHook
    from chimbuko.instrument.hooks.profiling import ProfilingHook


def hook_of(
    recorder: Recorder, include: tuple[str, ...], with_builtins: bool, library: str = ""
) -> ProfilingHook | MonitoringHook:
    """Return the hook that costs the program least.

    The parameters are those of ``ProfilingHook``; ``library`` is the path of its budget, empty for none.
    """
    from chimbuko.instrument.hooks.monitoring import MonitoringHook, free_number
    from chimbuko.instrument.hooks.profiling import ProfilingHook

    # To monitoring Python reports calls of all callables, and to profiling hooks only those of builtins.
    number = None if with_builtins else free_number()
    budget = None if with_builtins else _budget_of(library)
    if number is None:
        return ProfilingHook(recorder, include, with_builtins, budget)
    return MonitoringHook(recorder, include, number, budget)


def _budget_of(library: str) -> CallBudget | None:
    if not library:
        return None
    # Not for all: it loads ctypes.
    from chimbuko.instrument.hooks.callbudget import CallBudget

    try:
        return CallBudget(library)
    except (AttributeError, OSError):
        # A Python of another kind, or one that keeps its functions from libraries: all is recorded.
        return None
