"""Sees before a run that all kernels are compiled: by one process, while others, and the program, wait."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

from chimbuko.core.errors import ServiceError
from chimbuko.core.kernels.library import FOLDER_VARIABLE, FORM_VARIABLE, is_prepared
from chimbuko.runtime.process.lifetime import die_with_parent, log, write_error

USUAL_S = 30
"""Usual time in seconds to compile all kernels on an idle core; a busy machine takes twice as long."""
LOOK_S = 0.2


def await_kernels(should_stop: Callable[[], bool] = lambda: False) -> None:
    """Have all kernels compiled, and wait for that; a few milliseconds where they are.

    Parameters
    ----------
    should_stop
        Asked again and again meanwhile; once it is true, nobody waits any longer.

    Raises
    ------
    ServiceError
        They cannot be compiled.
    """
    if is_prepared():
        return
    began_s = time.monotonic()
    with TemporaryFile() as words:
        compiling = subprocess.Popen(
            [sys.executable, "-m", "chimbuko", "warmup"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            preexec_fn=die_with_parent,
        )
        _show_until_end(compiling, began_s, should_stop)
        words.seek(0)
        last_words = words.read().decode(errors="replace").strip().splitlines()[-1:]
    if should_stop():
        return
    if compiling.returncode:
        reason = last_words[0].removeprefix("chimbuko: ") if last_words else f"code {compiling.returncode}"
        raise ServiceError(reason)
    log(f"kernels are compiled ({time.monotonic() - began_s:.0f} s)")


def prepare_kernels(folder: Path) -> str:
    """Build the library into the folder, or else have numba compile all kernels; return why it was that.

    Raises
    ------
    ServiceError
        Neither could be done.
    """
    if importlib.util.find_spec("numba") is None:
        raise ServiceError(
            "the kernels that came with this installation are for another processor or Python, and numba, "
            "which compiles them, is not installed: pip install 'chimbuko[kernels]'"
        )
    if not (reason := _built(folder, "source")):
        return ""
    if failure := _built(folder, "jit", "--numba"):
        raise ServiceError(
            f"kernels could not be compiled into {folder} ({failure}); "
            f"set {FOLDER_VARIABLE} to another folder"
        )
    return reason


def _built(folder: Path, form: str, *options: str) -> str:
    """Build in a process of its own, in which kernels have the form; return why that failed, if it did."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "chimbuko.core.kernels.build", str(folder), *options],
        env=os.environ | {FORM_VARIABLE: form},
        capture_output=True,
        text=True,
        preexec_fn=die_with_parent,
    )
    said = [line for line in done.stderr.splitlines() if line.strip()] or [f"code {done.returncode}"]
    return said[-1] if done.returncode else ""


def _show_until_end(
    compiling: subprocess.Popen[bytes], began_s: float, should_stop: Callable[[], bool]
) -> None:
    """Say how long it has taken, until it has ended: on a terminal again and again, elsewhere once."""
    text = f"compiling kernels, once on each kind of machine; that takes some {USUAL_S} s"
    is_terminal = sys.stderr.isatty()
    if not is_terminal:
        log(text)
    while compiling.poll() is None:
        if is_terminal:
            write_error(f"\r\x1b[Kchimbuko: {text}: {time.monotonic() - began_s:.0f} s")
        if should_stop():
            compiling.terminate()
            compiling.wait()
        time.sleep(LOOK_S)
    if is_terminal:
        write_error("\r\x1b[K")
