"""Recording of a running program, from now on until its end or until it is let go."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import chimbuko
from chimbuko.core.errors import ConfigError
from chimbuko.core.files import write_atomically
from chimbuko.instrument.tracer.injection import Target, inject
from chimbuko.runtime.process.lifetime import log

COOPERATION_VARIABLE = "CHIMBUKO_ATTACH_PLACE"
"""Environment variable with a folder, by which a program asks to be recorded itself."""
SETTINGS, DONE = "settings", "done"
"""Files there: the settings of its recording, and one that it makes when it has ended that."""
LOOK_S = 0.05
QUIET_S = 3.0
"""Time in seconds without an answer after which the user is told for what it is waited."""
_CODE = """
import os, sys
home = {home!r}
sys.path.insert(0, home)
try:
    from chimbuko.instrument.tracer import session
    session.{call}
    said = ""
except BaseException as error:
    said = repr(error)
finally:
    sys.path.remove(home)
try:
    with open({answer!r} + ".part", "w") as file:
        file.write(said)
    os.rename({answer!r} + ".part", {answer!r})
except OSError:
    pass
"""


def attach(target: Target, settings: str, should_stop: Callable[[], bool]) -> bool:
    """Begin to record a running program; return whether it was begun before it was asked to stop.

    Parameters
    ----------
    settings
        Settings of the recording, as ``session.new_family`` makes them.

    Raises
    ------
    ConfigError
        It cannot be recorded.
    """
    return _run(target, f"attach({settings!r})", should_stop)


def detach(target: Target) -> None:
    """End the recording, and leave the program as it was."""
    _run(target, "detach()", lambda: not target.is_alive)


def _run(target: Target, call: str, should_stop: Callable[[], bool]) -> bool:
    """Have the program call a function of ``session``; return whether it has answered."""
    with tempfile.TemporaryDirectory(prefix="chimbuko-attach-") as folder:
        answer = Path(folder) / "answer"
        home = str(Path(chimbuko.__file__).parent.parent)
        inject(target, _CODE.format(home=home, call=call, answer=str(answer)))
        began_s, has_told = time.monotonic(), False
        while not answer.exists():
            if should_stop() or not target.is_alive:
                return False
            if time.monotonic() - began_s > QUIET_S and not has_told:
                log(f"process {target.pid} answers when its main thread runs Python code again")
                has_told = True
            time.sleep(LOOK_S)
        if problem := answer.read_text():
            raise ConfigError(f"process {target.pid} cannot be recorded: {problem}")
    return True


def cooperate(target: Target, settings: str, place: Path, should_stop: Callable[[], bool]) -> None:
    """Give a program the settings of its recording, and wait until it has ended that."""
    write_atomically(place / SETTINGS, settings.encode())
    watch(target, lambda: should_stop() or (place / DONE).exists() or not place.exists())


def watch(target: Target, should_stop: Callable[[], bool]) -> None:
    """Wait until the program has ended, or until it is asked to stop."""
    while target.is_alive and not should_stop():
        time.sleep(LOOK_S)
