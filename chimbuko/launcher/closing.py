"""The end of a run, whoever led it: what became of it is noted, and told."""

from __future__ import annotations

import time

import msgspec

from chimbuko.errors import ChimbukoError
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.relabel import relabel_run, relabelled_line
from chimbuko.launcher.outcome.summary import Summary, problem_lines, summarize, summary_lines
from chimbuko.launcher.services import Services
from chimbuko.process.lifetime import write_error
from chimbuko.process.mishaps import words_of
from chimbuko.runs.directory import RunDirectory


def close_run(
    run: RunDirectory,
    services: Services,
    problems: list[str],
    state: str,
    exit_code: int | None,
    is_relabelling: bool,
    as_json: bool,
) -> int:
    """Note what became of a run in its folder and store, and tell its summary.

    Parameters
    ----------
    problems
        One line each, for what did not end as it should; what goes wrong here is added.
    state, exit_code
        As in ``RunInfo``.
    is_relabelling
        Whether recorded calls are judged again by the final model.

    Returns
    -------
    int
        0, or an exit code: there is no summary, as the store cannot be read. Nothing is raised: whoever led
        the run has the exit code of a program to pass on.
    """
    try:
        if is_relabelling:
            say(relabelled_line(relabel_run(run, is_deleting=False)))
    except Exception as error:
        problems.append(words_of(error))
    ended = msgspec.structs.replace(
        services.info, state=state, ended_us=time.time_ns() // 1000, exit_code=exit_code
    )
    try:
        summary = summarize(run, [])
    except Exception as error:
        problems.append(words_of(error))
        try:
            run.write_info(ended)
        except ChimbukoError as unwritten:
            problems.append(str(unwritten))
        _tell_problems(run, problems, as_json)
        return error.exit_code if isinstance(error, ChimbukoError) else ChimbukoError.exit_code
    try:
        services.write_info(
            msgspec.structs.replace(ended, trace_bytes=summary.trace_bytes, stored_bytes=summary.stored_bytes)
        )
    except Exception as error:
        problems.append(words_of(error))
    _tell(msgspec.structs.replace(summary, problems=problems), as_json)
    return 0


def _tell(summary: Summary, as_json: bool) -> None:
    if as_json:
        _print_json(msgspec.json.encode(summary))
    else:
        write_error("".join(f"{line}\n" for line in summary_lines(summary)))


def _tell_problems(run: RunDirectory, problems: list[str], as_json: bool) -> None:
    """All that can be told without the store."""
    if as_json:
        _print_json(msgspec.json.encode({"run": str(run.path), "problems": problems}))
    else:
        write_error("".join(f"{line}\n" for line in problem_lines(problems)))


def _print_json(encoded: bytes) -> None:
    """On standard output, at once: what cannot be written must not become the exit code of the program."""
    try:
        with open(1, "wb", closefd=False) as output:
            output.write(msgspec.json.format(encoded) + b"\n")
    except OSError as error:
        say(f"standard output: cannot be written ({error.strerror}); the summary is lost")
