"""Two ways to start a process of ours: as a new Python, or as a fork of this one.

A fork shares what this process has loaded. A client of the broker and a database take memory and
CPU time, which all processes of a run together pay once.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, BinaryIO, NoReturn, Protocol

import msgspec
import setproctitle

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import become_ours, give_freed_memory_back

BLAS_VARIABLE = "OPENBLAS_NUM_THREADS"
_LONGEST_LOOK_S = 0.05


class Launch(msgspec.Struct, frozen=True):
    """Specification of a process to start."""

    module: str
    """Module of ours. Its ``main`` is the process; its ``load``, if any, loads what forks can share."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Complete environment of the process."""
    log: Path
    """File to which its standard error is appended."""
    inherited: tuple[int, ...]
    """File descriptors that the process gets."""
    oom_score: int


class Process(Protocol):
    """A process that was started, with the interface of ``subprocess.Popen``."""

    pid: int
    returncode: int

    @property
    def stdout(self) -> IO[bytes] | None:
        """Standard output of the process."""

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises ``subprocess.TimeoutExpired``."""

    def send_signal(self, sig: int) -> None:
        """Send a signal to the process, if it still runs."""


Starter = Callable[[Launch], Process]


def new_python(launch: Launch) -> Process:
    """Start a process as a new Python, from anywhere, even from a process that has threads."""
    with _opened(launch.log) as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", launch.module, *launch.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=launch.environment,
            # Ctrl-C is for the program that the user runs and for the launcher, which ends us in order.
            start_new_session=True,
            preexec_fn=partial(become_ours, launch.oom_score),
            pass_fds=launch.inherited,
        )


def fork(launch: Launch) -> Process:
    """Start a process as a fork of this one, which has no threads, and loads now what the new process needs.

    Raises
    ------
    ServiceError
        The modules cannot be loaded.
    OSError
        The process cannot be started.
    """
    load(launch.module)
    return fork_then_load(launch)


def fork_then_load(launch: Launch) -> Process:
    """Start a process as ``fork`` does, but let the new process load what is not loaded yet: nobody else
    needs it, or waits for it.

    Raises
    ------
    OSError
        The process cannot be started.
    """
    # What is written already must not be written twice.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    reading, writing = os.pipe()
    with _opened(launch.log) as log, signals_wait() as blocked:
        try:
            parent = os.getpid()
            pid = os.fork()
        except OSError:
            os.close(reading)
            raise
        finally:
            if os.getpid() == parent:
                os.close(writing)
        if pid == 0:
            _become(launch, parent, writing, log.fileno(), blocked)
    return ForkedProcess(pid, open(reading, "rb"))


def load(name: str) -> ModuleType:
    """Load a module of ours, with all that its process needs.

    Raises
    ------
    ServiceError
        There is no room for it.
    """
    try:
        with uncollected(), one_blas_thread():
            module = importlib.import_module(name)
            if hasattr(module, "__path__"):
                module = importlib.import_module(f"{name}.__main__")
            getattr(module, "load", _nothing)()
    except (ImportError, OSError, MemoryError) as error:
        # Libraries report a lack of memory, or of file descriptors, with errors of their own.
        reason = next(iter(str(error).splitlines()), "no memory")
        raise ServiceError(f"{name} cannot be loaded ({reason}); {remedy_of(error)}") from error
    return module


def remedy_of(error: Exception) -> str:
    """Return what to do about a module of ours that cannot be loaded."""
    if isinstance(error, ModuleNotFoundError):
        return "packages are missing in this Python: install Chimbuko with pip again"
    return "allow for more memory (ulimit -v) and open files (ulimit -n)"


def _nothing() -> None:
    """Load nothing: a module alone has all that its process needs."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Suspend garbage collection in this context, in which much is loaded that stays: a search for garbage
    takes 0.2 of 0.9 s.

    What was loaded is not searched later either: a collection in a fork would copy each page.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit numpy to one thread while it is loaded in this context: we multiply no matrices, and a process
    with threads must not fork.
    """
    before = os.environ.get(BLAS_VARIABLE)
    os.environ[BLAS_VARIABLE] = "1"
    try:
        yield
    finally:
        # The application may do so.
        if before is None:
            del os.environ[BLAS_VARIABLE]
        else:
            os.environ[BLAS_VARIABLE] = before


class ForkedProcess:
    """A fork, as the process that has started it sees it."""

    def __init__(self, pid: int, stdout: BinaryIO) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int = None  # type: ignore[assignment]

    def poll(self) -> int | None:
        """See ``Process``."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """See ``Process``."""
        latest_s = None if timeout is None else time.monotonic() + timeout
        pause_s = 0.0005
        while self.poll() is None:
            if latest_s is not None and time.monotonic() >= latest_s:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
        return self.returncode

    def send_signal(self, sig: int) -> None:
        """See ``Process``."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)


def become_fork(title: str, stdin: int, stdout: int, stderr: int, kept: tuple[int, ...] = ()) -> None:
    """Release, in a new fork, all that is its parent's, descriptors and handlers of signals.

    What Python still refers to is never freed, or it would close descriptors that are another's by now: so
    the process has to end by ``os._exit``.

    Parameters
    ----------
    stdin, stdout, stderr
        Descriptors that become those of the process.
    kept
        Further descriptors that it keeps.
    """
    gc.freeze()
    give_freed_memory_back()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # The copies come first: one of the three may have the number that another is to have.
    for place, copy in enumerate([os.dup(one) for one in (stdin, stdout, stderr)]):
        os.dup2(copy, place)
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if int(name) not in {0, 1, 2, *kept}:
                os.close(int(name))
    for descriptor in kept:
        os.set_inheritable(descriptor, True)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "wb", closefd=False)))
    standard_error = io.BufferedWriter(io.FileIO(2, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(standard_error, errors="backslashreplace", line_buffering=True)
    setproctitle.setproctitle(title)


def end_fork(work: Callable[[], object]) -> NoReturn:
    """Do the work of a fork, and end it as Python would end a process."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        # It is None where the shell has closed it.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _become(launch: Launch, parent: int, stdout: int, log: int, blocked: set[int]) -> NoReturn:
    def work() -> None:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        title = " ".join((launch.module, *launch.arguments))
        become_fork(title, nothing, stdout, log, launch.inherited)
        become_ours(launch.oom_score)
        if os.getppid() != parent:
            return
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.environ.clear()
        os.environ.update(launch.environment)
        sys.argv = [launch.module, *launch.arguments]
        try:
            module = load(launch.module)
        except ServiceError as error:
            print(f"chimbuko: {error}", file=sys.stderr)
            sys.exit(error.exit_code)
        module.main()

    end_fork(work)


@contextmanager
def signals_wait() -> Iterator[set[int]]:
    """Block signals in this context, in which a process forks: the handlers of this one are none of the
    other's.

    Gives the signals that were blocked before, as a fork has to block them again.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield {int(number) for number in blocked}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _opened(log: Path) -> BinaryIO:
    """Open a log for writing; the null device where its folder is gone: better a service without a log than
    none.
    """
    try:
        return log.open("ab")
    except OSError:
        return open(os.devnull, "ab")
