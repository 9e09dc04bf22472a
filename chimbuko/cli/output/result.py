"""The result of a run, for people or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from chimbuko.core.errors import ChimbukoError
from chimbuko.core.visible import escaped_json, visible
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.summary import Result, problem_lines, summary_lines
from chimbuko.runtime.process.lifetime import write_error
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from chimbuko.plan.placingadvice import AgentAdvice


def show(result: Result, as_json: bool, advise: bool = False) -> None:
    """The summary on standard error, or as JSON on standard output; without a summary, the problems.

    Parameters
    ----------
    advise
        Also show where the analysis had best run.
    """
    problems = list(result.problems)
    advices: list[AgentAdvice] = []
    if advise:
        # Here because it would be loaded before the program starts.
        from chimbuko.cli.output.placing import MOST_ADVISED, as_advice, print_advice
        from chimbuko.cli.output.table import Output
        from chimbuko.provenance.nodes.placing import advices as advices_of

        try:
            advices = advices_of(RunDirectory(Path(result.run)), MOST_ADVISED)
        except ChimbukoError as error:
            problems.append(f"no advice: {error}")
    if as_json:
        known = {"run": result.run} if result.summary is None else msgspec.to_builtins(result.summary)
        more = {"advice": [as_advice(one) for one in advices]} if advise else {}
        _print_json(msgspec.json.encode({**known, "problems": problems, **more}))
        return
    lines = problem_lines(result.problems) if result.summary is None else summary_lines(result.summary)
    lines += problems[len(result.problems) :]
    write_error("".join(f"{visible(line)}\n" for line in lines))
    for one in advices:
        print_advice(one, Output())


def _print_json(encoded: bytes) -> None:
    """At once: what cannot be written must not become the exit code of the program."""
    try:
        with open(1, "wb", closefd=False) as output:
            output.write(escaped_json(msgspec.json.format(encoded).decode()).encode() + b"\n")
    except OSError as error:
        say(f"standard output: cannot be written ({error.strerror}); the summary is lost")
