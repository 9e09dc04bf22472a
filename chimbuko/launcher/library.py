"""A run that a Python program starts: a notebook, a batch system.

It is led by a process of its own. Services are forks of the one that leads, which must have no threads; and
whatever becomes of the Python program, the run ends in order.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import tempfile
from typing import BinaryIO

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.launcher.options import RunOptions
from chimbuko.launcher.outcome.summary import Result


def run(options: RunOptions) -> Result:
    """Run a program, or analyse what one has recorded, and wait for the end.

    What the program writes goes where this process's output goes; it has no standard input. An interrupt is
    passed on to it, and raised when the run has ended.

    Raises
    ------
    ChimbukoError
        The analysis cannot begin; the program was not started.
    KeyboardInterrupt
        The run was interrupted. What was found until then is in its folder.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as answered:
        pickle.dump(options, asked)
        asked.seek(0)
        numbers = asked.fileno(), answered.fileno()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "chimbuko.launcher.library", *map(str, numbers)],
            stdin=subprocess.DEVNULL,
            pass_fds=numbers,
            # Ctrl-C at a terminal would come to it twice: by itself, and from us.
            start_new_session=True,
        )
        interrupts = 0
        while process.returncode is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                interrupts += 1
                process.send_signal(signal.SIGINT)
        answered.seek(0)
        answer = _last(answered)
    if isinstance(answer, ChimbukoError):
        raise answer
    if interrupts:
        raise KeyboardInterrupt
    if answer is None:
        raise ServiceError(f"the analysis ended early; the program's exit code was {process.returncode}")
    return answer


def main() -> None:
    """Lead a run; arguments are the descriptors of the options and of the answer."""
    from chimbuko.launcher.application import part

    asked, answered = (int(number) for number in sys.argv[1:])
    part()
    from chimbuko.launcher.assembly import lead

    with open(asked, "rb") as options, open(answered, "wb", buffering=0) as answer:

        def show(result: Result) -> None:
            answer.write(pickle.dumps(result))

        try:
            code = lead(pickle.load(options), show)
        except ChimbukoError as error:
            answer.write(pickle.dumps(error))
            code = error.exit_code
    sys.exit(code)


def _last(answered: BinaryIO) -> Result | ChimbukoError | None:
    """Return the last answer of a process, or None if it was killed before it answered."""
    try:
        answer: Result | ChimbukoError = pickle.load(answered)
    except EOFError:
        return None
    return answer


if __name__ == "__main__":
    main()
