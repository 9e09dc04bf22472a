"""Commands of ours that tests start, forked from a Python that has imported what they need.

To import it is half of the 0.5 to 1.1 s of CPU time that a short command takes; each process that runs tests
pays it once. What is started so is a child of the process that starts it, with the words, folder,
environment, limits, signals and descriptors that it was given, and no others; the Python that it is forked
from has no threads, and has opened nothing. Two things differ: ``/proc/PID/cmdline`` is one word, and
``/proc/PID/environ`` is not its own. Tests for which that matters, and those of starts, of interruptions and
of memory, are marked ``cold``.
"""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import importlib
import inspect
import io
import json
import os
import re
import resource
import runpy
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

import setproctitle

from tests.places import ROOT

PRELOADED = {
    "chimbuko": (
        *("chimbuko.cli.execute.run", "chimbuko.cli.inspect.query", "chimbuko.launcher.closing"),
        *("chimbuko.launcher.liverun", "chimbuko.pserver.server", "chimbuko.provenance.service.service"),
        *("chimbuko.ad.agent.agent", "chimbuko.ad.streams.process"),
    ),
    "chimbuko.viz": ("chimbuko.viz.http.multiprocess", "chimbuko.viz.jobs.workerpool"),
}
"""What is imported, by module that is started: never that module itself."""
READ_EARLY = (
    *("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_"),
    *("NUMBA_", "OMP_", "OPENBLAS_", "CHIMBUKO_KERNELS", "CHIMBUKO_JOBS"),
)
"""How variables begin that are read while Python starts and imports: with others there is a real start."""
UNBUFFERED, SAYS_WHERE = FOLLOWED = ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER")
"""Those of them that are followed."""
LIMITS = sorted(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
_SUBREAPER = 36
_NUMBER_BYTES = 4
_REAL = subprocess.Popen


class Warm:
    """Pythons that have imported much, of the process that runs tests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pythons: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
        self._early = _early(os.environ)

    def can_fork(self, given: Mapping[str, Any]) -> bool:
        """Whether what ``subprocess.Popen`` was given makes no difference to a fork."""
        words = given["args"]
        return (
            isinstance(words, list | tuple)
            and [os.fsdecode(word) for word in words[:2]] == [sys.executable, "-m"]
            and words[2] in PRELOADED
            and given["close_fds"]
            and given["restore_signals"]
            and given["process_group"] in (None, -1)
            and given["umask"] == -1
            and not any(given[name] for name in ("preexec_fn", "shell", "executable"))
            and given["gid"] is given["gids"] is given["uid"] is None
            and _early(_environment(given)) == self._early
        )

    def fork(self, given: Mapping[str, Any]) -> int:
        """Start a child of this process, and return its id."""
        words = [os.fsdecode(word) for word in given["args"]]
        request = {
            "words": words,
            "environment": _environment(given),
            "folder": os.path.abspath(os.fsdecode(given["cwd"] or os.curdir)),
            "kept": list(given["pass_fds"]),
            "has_own_session": bool(given["start_new_session"]),
            "ignored": [one for one in signal.valid_signals() if signal.getsignal(one) == signal.SIG_IGN],
            "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            "umask": _umask(),
            "cores": list(os.sched_getaffinity(0)),
            "limits": [resource.getrlimit(limit) for limit in LIMITS],
            "parent": os.getpid(),
        }
        content = json.dumps(request).encode()
        standard = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        descriptors = [place if one == -1 else one for place, one in enumerate(standard)]
        with self._lock, _gets_orphans():
            connection = self._connection(words[2])
            length = len(content).to_bytes(_NUMBER_BYTES, "big")
            socket.send_fds(connection, [length], [*descriptors, *request["kept"]])
            connection.sendall(content)
            child = int.from_bytes(connection.recv(_NUMBER_BYTES, socket.MSG_WAITALL), "big")
        assert child, "the Python that forks commands is gone"
        return child

    def _connection(self, module: str) -> socket.socket:
        if module not in self._pythons:
            ours, theirs = socket.socketpair()
            words = [sys.executable, "-m", "tests.warm", module, str(theirs.fileno())]
            environment = {name: value for name, value in os.environ.items() if name not in FOLLOWED}
            environment["OPENBLAS_NUM_THREADS"] = "1"
            with theirs:
                python = _REAL(
                    words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
            self._pythons[module] = python, ours
        return self._pythons[module][1]


@contextmanager
def _gets_orphans() -> Iterator[None]:
    """Be the parent, in this context, of what a descendant leaves: so a fork of a child becomes a child."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_SUBREAPER, 0, 0, 0, 0)


def _environment(given: Mapping[str, Any]) -> dict[str, str]:
    environment = os.environ if given["env"] is None else given["env"]
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}


def _umask() -> int:
    """The only way to read it that does not change it."""
    found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1], 8)


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_EARLY) and name not in FOLLOWED
    }


_warm: tuple[int, Warm] | None = None


def _of_this_process() -> Warm:
    """Its own: those of the process that it is a fork of have another's children."""
    global _warm
    if _warm is None or _warm[0] != os.getpid():
        _warm = os.getpid(), Warm()
    return _warm[1]


class _Popen(subprocess.Popen[Any]):
    """``subprocess.Popen``, but for what can be forked."""

    def _execute_child(self, *values: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        given = inspect.signature(start).bind(*values).arguments
        if not _of_this_process().can_fork(given):
            start(*values)
            return
        self.pid = _of_this_process().fork(given)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[pipe] for pipe in pipes))  # type: ignore[attr-defined]


@contextmanager
def warm_starts() -> Iterator[None]:
    """Fork, in this context, what ``subprocess`` starts of ours."""
    subprocess.Popen = _Popen  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = _REAL  # type: ignore[misc]


def _next(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork what is asked for, until nobody is left who could ask; returns in the forks alone."""
    while True:
        length, descriptors, _, _ = socket.recv_fds(connection, _NUMBER_BYTES, 64)
        if not length:
            os._exit(0)
        request = json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
        reading, writing = os.pipe()
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child == 0:
                connection.detach()
                return request, descriptors
            os.write(writing, child.to_bytes(_NUMBER_BYTES, "big"))
            os._exit(0)
        # Once it has ended the child is that of who has asked.
        os.waitpid(middle, 0)
        connection.sendall(os.read(reading, _NUMBER_BYTES))
        for descriptor in (*descriptors, reading, writing):
            os.close(descriptor)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Make a fork what a process is that was started as asked for."""
    latest_s = time.monotonic() + 60
    while os.getppid() != request["parent"]:
        if time.monotonic() > latest_s:
            os._exit(1)
        time.sleep(0.0001)
    if request["has_own_session"]:
        os.setsid()
    os.umask(request["umask"])
    os.sched_setaffinity(0, request["cores"])
    for limit, values in zip(LIMITS, request["limits"], strict=True):
        if resource.getrlimit(limit) != tuple(values):
            resource.setrlimit(limit, tuple(values))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    _take_descriptors(descriptors, request["kept"])
    _open_standard(bool(request["environment"].get(UNBUFFERED)))
    _take_signals(request["ignored"], request["blocked"])
    if request["environment"].get(SAYS_WHERE):
        faulthandler.enable()
    sys.path[0] = request["folder"]
    sys.argv = request["words"][2:]
    sys.orig_argv[:] = request["words"]
    name = Path("/proc/self/comm").read_text()
    setproctitle.setproctitle(" ".join(request["words"]))
    Path("/proc/self/comm").write_text(name)


def _take_descriptors(descriptors: list[int], kept: list[int]) -> None:
    """Have the descriptors that came at their places, and no others."""
    above = max([2, *kept, *descriptors]) + 1
    copies = [fcntl.fcntl(one, fcntl.F_DUPFD, above) for one in descriptors]
    for copy, place in zip(copies, (0, 1, 2, *kept), strict=True):
        os.dup2(copy, place)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in {0, 1, 2, *kept}:
            with suppress(OSError):
                os.close(int(name))


def _open_standard(is_unbuffered: bool) -> None:
    """Open standard input and output as Python does where it starts."""
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        raw: Any = io.FileIO(place, "wb" if place else "rb", closefd=False)
        raw.name = f"<{name}>"
        is_raw = place and is_unbuffered
        buffer = raw if is_raw else (io.BufferedWriter if place else io.BufferedReader)(raw)
        stream = io.TextIOWrapper(
            buffer,
            encoding=before.encoding,
            errors=before.errors,
            newline="\n" if place else None,
            line_buffering=place == 2 or raw.isatty(),
            write_through=bool(is_raw),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _take_signals(ignored: list[int], blocked: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _run(module: str, number: int) -> NoReturn:
    """Import, answer, and go on as what was asked for; the process ends as Python ends one."""
    from chimbuko.runtime.process.starting import uncollected

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It looks for its place beside the environment, which is another one later.
    setproctitle.getproctitle()
    connection = socket.socket(fileno=number)
    with uncollected():
        for name in PRELOADED[module]:
            importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "it has threads, and must not fork"
    _become(*_next(connection))
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.modules.pop("tests", None)
    sys.modules.pop("tests.warm", None)
    runpy._run_module_as_main(module)  # type: ignore[attr-defined]
    sys.exit()


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]))
