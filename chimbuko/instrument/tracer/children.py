"""Record of the processes that this one starts, and ends without the interpreter's, before which a process
hands over its last calls.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from functools import wraps

from chimbuko.instrument.tracer.chunks import Children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


MOST_NAMED = 1024
LONGEST_NAME = 40

FORK_SERVER = "multiprocessing.forkserver"
_HELPERS = (FORK_SERVER, "multiprocessing.resource_tracker", "chimbuko")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class StartedPrograms:
    """Programs that this process has started since the last handover."""

    def __init__(self) -> None:
        self.forks = 0
        self._named = 0
        self._others = 0
        self._fresh: dict[int, str] = {}

    def note(self, pid: int, arguments: Sequence[str | bytes]) -> None:
        """Note a program that was started as the process ``pid``."""
        words = [os.fsdecode(word) for word in arguments]
        if is_helper(module_of(words)):
            return
        if self._named == MOST_NAMED:
            self._others += 1
            return
        self._named += 1
        self._fresh[pid] = os.path.basename(words[0])[:LONGEST_NAME]

    def take(self) -> Children:
        """Return what was started since the last call."""
        fresh = self._fresh.copy()
        for pid in fresh:
            del self._fresh[pid]
        return Children(self.forks, fresh, self._others)


def is_helper(module: str) -> bool:
    """Whether a process that runs this module is not a part of the program; one that it forks may be."""
    return module in _HELPERS or module.startswith("chimbuko.")


def module_of(command: Sequence[str]) -> str:
    """Return what a command line of Python runs: a module, a script's base name, or a helper's module."""
    words = iter(command[1:])
    for word in words:
        if word == "-m":
            return next(words, "")
        if word == "-c":
            code = next(words, "")
            return next((module for module in _HELPERS[:2] if code.startswith(f"from {module} ")), "")
        if word in _OPTIONS_WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return os.path.basename(word)
    return ""


def watch(noted: Callable[[], StartedPrograms | None]) -> None:
    """Note each program that this process starts from now on.

    An audit hook would see them all, too, but also be called for every ``id``, twice for each recorded call.

    Parameters
    ----------
    noted
        Function that returns where to note them; it returns None while nothing is recorded.
    """
    import _posixsubprocess

    subprocess = sys.modules.get("subprocess")
    for module, name, arguments_of in (
        (_posixsubprocess, "fork_exec", _first),
        (subprocess, "_fork_exec", _first),
        (os, "posix_spawn", _second),
        (os, "posix_spawnp", _second),
    ):
        original = getattr(module, name, None)
        if original is not None and not hasattr(original, "__wrapped__"):
            setattr(module, name, _noting(original, arguments_of, noted))


def unwatch() -> None:
    """Undo :func:`watch`."""
    import _posixsubprocess

    for module in (_posixsubprocess, sys.modules.get("subprocess"), os):
        for name in ("fork_exec", "_fork_exec", "posix_spawn", "posix_spawnp"):
            original = getattr(getattr(module, name, None), "__wrapped__", None)
            if original is not None:
                setattr(module, name, original)


def _first(*arguments: Any, **_: Any) -> Sequence[str | bytes]:
    words: Sequence[str | bytes] = arguments[0]
    return words


def _second(*arguments: Any, **_: Any) -> Sequence[str | bytes]:
    words: Sequence[str | bytes] = arguments[1]
    return words


def _noting(
    original: Callable[..., int],
    arguments_of: Callable[..., Sequence[str | bytes]],
    noted: Callable[[], StartedPrograms | None],
) -> Callable[..., int]:
    @wraps(original)
    def started(*arguments: Any, **options: Any) -> int:
        programs = noted()
        forks = programs.forks if programs else 0
        pid = original(*arguments, **options)
        if programs is not None:
            # A program that runs Python code before it begins has counted as a fork, too.
            programs.forks = forks
            # Whether the arguments are valid is for the original function to say.
            try:
                programs.note(pid, arguments_of(*arguments, **options))
            except Exception:
                programs.note(pid, ("?",))
        return pid

    return started


# Ends without the interpreter's: by ``os._exit``, by a signal that this process sends to itself, as servers
# do once they have closed, and where another program takes this process.

_HARMLESS = frozenset(
    getattr(signal, f"SIG{name}") for name in ("CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH")
)


def watch_ends(before_end: Callable[[], None], before_exec: Callable[[], None]) -> None:
    """Call functions before this process ends by itself, and before it becomes another program."""
    for module, name, ends in _ENDS:
        original = getattr(module, name)
        if not hasattr(original, "__wrapped__"):
            before = before_exec if ends is _may_run else before_end
            setattr(module, name, _ending(original, ends, before))


def unwatch_ends() -> None:
    """Undo :func:`watch_ends`."""
    for module, name, _ in _ENDS:
        original = getattr(module, name)
        setattr(module, name, getattr(original, "__wrapped__", original))


def _ending(
    original: Callable[..., Any], ends: Callable[..., bool], before: Callable[[], None]
) -> Callable[..., Any]:
    @wraps(original)
    def ended(*arguments: Any, **options: Any) -> Any:
        # Whatever goes wrong, the process ends as it wants to; the original says what is wrong with a call.
        with suppress(Exception):
            if ends(*arguments):
                before()
        return original(*arguments, **options)

    return ended


def _always(*_: Any) -> bool:
    return True


def _may_run(path: Any, *_: Any) -> bool:
    # A search along PATH tries folders where there is no such program, and the process goes on.
    return os.access(path, os.X_OK) and not os.path.isdir(path)


def _is_deadly(number: int) -> bool:
    return number not in _HARMLESS and signal.getsignal(number) == signal.SIG_DFL


def _is_deadly_here(pid: int, number: int) -> bool:
    return pid == os.getpid() and _is_deadly(number)


_ENDS: tuple[tuple[Any, str, Callable[..., bool]], ...] = (
    (os, "_exit", _always),
    (os, "abort", _always),
    (os, "kill", _is_deadly_here),
    (signal, "raise_signal", _is_deadly),
    (os, "execv", _may_run),
    (os, "execve", _may_run),
)


# Workers of multiprocessing, which their parent ends by SIGTERM: they hand over their last calls before it.
#
# A signal that Python handles waits for code in C to return. So that a worker that is stuck there still
# ends, its parent kills one that has not ended some seconds after it was terminated.


LONGEST_END_S = 1.0
"""Longest time by which the last handover of a process holds up its end."""
KILL_AFTER_S = 5.0
"""Time after which a worker is taken for stuck: on a busy node the last handover takes 1 s."""

_terminated: deque[tuple[Any, float]] = deque()
"""Processes of multiprocessing that this process has terminated, and when they are killed."""


def is_worker() -> bool:
    """Whether multiprocessing has started this interpreter as a worker."""
    return "--multiprocessing-fork" in sys.orig_argv


def end_by_signal(stop: Callable[[float], None]) -> None:
    """Call ``stop`` with the longest time it may take when SIGTERM comes, if that ends the process."""

    def end(number: int, frame: object) -> None:
        # Whatever goes wrong, the process ends by the signal.
        with suppress(Exception):
            stop(LONGEST_END_S)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # Only the main thread may set a handler, and one of the program's own knows better.
    with suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, end)


def watch_terminations() -> None:
    """Note each worker that this process terminates from now on."""
    module = sys.modules.get("multiprocessing.process")
    kind = getattr(module, "BaseProcess", None)
    if kind is None or hasattr(kind.terminate, "__wrapped__"):
        return
    original = kind.terminate

    def terminate(self: Any) -> None:
        original(self)
        _terminated.append((self, time.monotonic() + KILL_AFTER_S))

    terminate.__wrapped__ = original  # type: ignore[attr-defined]
    kind.terminate = terminate


def kill_those_left() -> None:
    """Kill the workers that have not ended in time; our own thread calls this now and then."""
    while _terminated and _terminated[0][1] < time.monotonic():
        process, _ = _terminated.popleft()
        popen = getattr(process, "_popen", None)
        # As long as nobody has waited for it, its id is nobody else's.
        if popen is not None and popen.returncode is None:
            with suppress(OSError):
                os.kill(popen.pid, signal.SIGKILL)
