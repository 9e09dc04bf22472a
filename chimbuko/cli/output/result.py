"""The result of a run, for people or as JSON."""

from __future__ import annotations

import msgspec

from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.summary import Result, problem_lines, summary_lines
from chimbuko.process.lifetime import write_error
from chimbuko.visible import visible


def show(result: Result, as_json: bool) -> None:
    """The summary on standard error, or as JSON on standard output; without a summary, the problems."""
    if as_json:
        without = {"run": result.run, "problems": result.problems}
        _print_json(msgspec.json.encode(without if result.summary is None else result.summary))
    else:
        lines = problem_lines(result.problems) if result.summary is None else summary_lines(result.summary)
        write_error("".join(f"{visible(line)}\n" for line in lines))


def _print_json(encoded: bytes) -> None:
    """At once: what cannot be written must not become the exit code of the program."""
    try:
        with open(1, "wb", closefd=False) as output:
            output.write(msgspec.json.format(encoded) + b"\n")
    except OSError as error:
        say(f"standard output: cannot be written ({error.strerror}); the summary is lost")
