"""Command of a user, changed so that the programs which it or its MPI launcher runs are recorded."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from chimbuko.cli.execute.interpreter import (
    OURS,
    first_line_words,
    is_interpreter,
    is_recording,
    parse_command,
    recorded_launch,
    records_itself,
)
from chimbuko.core.errors import ConfigError

_RECORD: Final = (sys.executable, "-m", OURS, "trace")
_OF_TAU: Final = (b"tau_exec", b"tau_python", b"libTAU", b"TAU_PLUGINS")
"""What a program or a command that TAU records has in its text."""


def recorded_command(words: Sequence[str]) -> Sequence[str]:
    """Return a command that records what a launcher starts, a script of Python, what an interpreter runs, or
    a binary of the user's own; others stay as they are.
    """
    if not words:
        return words
    if (launch := recorded_launch(words)) is not None:
        return launch
    text = os.fsencode(" ".join(words))
    is_recorded = is_recording(text) or any(name in text for name in _OF_TAU)
    if not is_recorded and (job := _recorded_job(words, _recorded_by_launcher)) is not None:
        return job
    is_own = os.sep in words[0] and os.path.dirname(words[0]) not in os.get_exec_path()
    return _recorded_python(words) or (_recorded_native(words, with_scripts=False) if is_own else words)


def _recorded_by_launcher(words: Sequence[str]) -> Sequence[str]:
    return _recorded_python(words) or _recorded_native(words, with_scripts=True)


def _recorded_python(words: Sequence[str]) -> Sequence[str]:
    """Return the words by which a program of Python is run; none for any other program."""
    given = words if is_interpreter(words[0]) else _by_python(words)
    if not given:
        return ()
    command = parse_command(given[1:])
    # What a text or the standard input holds is a few lines that start something, as a rule.
    is_program = bool(command.script or command.module) and command.package != OURS
    if not is_program or records_itself(Path(command.script)):
        return given
    # A script that no other Python is named for is recorded by ours in itself.
    is_ours = tuple(given) == (sys.executable, *words)
    return (*_RECORD, *(words if is_ours else given))


def _recorded_native(words: Sequence[str], with_scripts: bool) -> Sequence[str]:
    # Here because a program of Python needs none of it.
    from chimbuko.instrument.recorder.library import native_program

    found = words[0] if Path(words[0]).is_file() else shutil.which(words[0])
    program = None if found is None else native_program(Path(found).absolute())
    is_program = program is not None and (program.is_elf or with_scripts)
    if program is None or not is_program or records_itself(program.path) or _is_of_tau(program.path):
        return words
    return (*_RECORD, *words)


def _is_of_tau(program: Path) -> bool:
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return any(text.find(name) >= 0 for name in _OF_TAU)
    except (OSError, ValueError):
        return False


def _by_python(words: Sequence[str]) -> Sequence[str]:
    """Return the command of the interpreter that runs a script of Python, if one was given by itself: the one
    that its first line names where it may be executed, or else ours; nothing for any other command.
    """
    script = Path(words[0])
    is_named = script.suffix == ".py" or os.sep in words[0]
    if not is_named or not os.access(script, os.R_OK) or not script.is_file():
        return ()
    by = first_line_words(script) if os.access(script, os.X_OK) else []
    if by:
        return (*by, *words) if is_interpreter(by[0]) else ()
    return (sys.executable, *words) if script.suffix == ".py" else ()


# Launchers of MPI programs, and the programs that they start on this node.

_Recorded = Callable[[Sequence[str]], Sequence[str]]
"""Returns the words of a program so that it is recorded, or as they are."""
_MPIRUN: Final = re.compile(r"(?:mpirun|mpiexec|orterun|prterun)(?:[.-]\w+)*")
_SRUN: Final = "srun"
_BETWEEN: Final = ":"
"""Word between the programs of a job that has several."""


def _values(flags: str, one: str, two: str = "") -> Mapping[str, int]:
    """Number of values of each option, by its name without dashes."""
    return {name: count for count, names in enumerate((flags, one, two)) for name in names.split()}


_MPIRUN_VALUES: Final = _values(
    "q quiet v verbose l prepend-rank print-all-exitcodes allow-run-as-root oversubscribe nooversubscribe "
    "use-hwthread-cpus bind-to-core bind-to-socket bycore bynode byslot report-bindings display-map "
    "display-allocation tag-output timestamp-output merge-stderr-to-stdout pernode continuous noprefix "
    "leave-session-attached genvall genvnone envall envnone disable-auto-cleanup",
    "n np c N x map-by bind-to rank-by membind ppn ppr npernode npersocket cpus-per-proc cpus-per-rank "
    "cpu-list cpu-set output-filename stdin timeout tune am prefix genvlist envlist launcher rmk iface "
    "outfile-pattern errfile-pattern prepend-pattern gpus-per-proc H host hosts",
    "mca gmca genv env",
)
_SRUN_VALUES: Final = _values(
    "l label u unbuffered O overcommit s oversubscribe Q quiet v verbose exclusive exact overlap "
    "kill-on-bad-exit",
    "n ntasks N nodes c cpus-per-task m distribution o output e error i input J job-name p partition "
    "A account t time T threads mpi cpu-bind mem-bind mem mem-per-cpu gres gpus gpus-per-task gpus-per-node "
    "gpu-bind ntasks-per-node ntasks-per-core ntasks-per-socket threads-per-core hint export",
)
_HOSTS: Final = frozenset(("H", "host", "hosts"))


def _recorded_job(words: Sequence[str], recorded: _Recorded) -> list[str] | None:
    """Return the command of a launcher with all its programs recorded; None for a command that is no
    launcher's, whose options are not all known, or that may start something on other nodes.
    """
    name = os.path.basename(words[0])
    values = _SRUN_VALUES if name == _SRUN else _MPIRUN_VALUES
    if (name != _SRUN and _MPIRUN.fullmatch(name) is None) or not _is_on_this_node(name == _SRUN):
        return None
    made = [words[0]]
    rest = list(words[1:])
    while True:
        end = rest.index(_BETWEEN) if _BETWEEN in rest else len(rest)
        part, rest = rest[:end], rest[end + 1 :]
        at = _program_at(part, values)
        if at is None:
            return None
        made += [*part[:at], *recorded(part[at:])]
        if not rest:
            return made
        made.append(_BETWEEN)


def _is_on_this_node(is_of_slurm: bool) -> bool:
    # Here because no other command needs it.
    from chimbuko.launcher.jobs.schedulers import allocation

    try:
        return len(allocation(os.environ).hosts) == 1
    except ConfigError:
        # Slurm would take any node.
        return not is_of_slurm


def _program_at(words: Sequence[str], values: Mapping[str, int]) -> int | None:
    """Return the place of the program behind the options of its launcher; None where that is not sure."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=")
        name = option.lstrip("-")
        count = 0 if equals or _is_joined(option, values) else values.get(name)
        if count is None:
            return None
        if name in _HOSTS and not _are_here(value if equals else "".join(words[at + 1 : at + 2])):
            return None
        at += 1 + count
    return at if at < len(words) else None


def _is_joined(option: str, values: Mapping[str, int]) -> bool:
    """Whether a word of Slurm's is a letter with its value, such as ``-n4``, or several letters."""
    letters = option[1:]
    if values is not _SRUN_VALUES or option.startswith("--") or len(letters) < 2:
        return False
    return values.get(letters[0]) == 1 or all(values.get(letter) == 0 for letter in letters)


def _are_here(hosts: str) -> bool:
    names = {host.partition(":")[0] for host in hosts.split(",")}
    return names <= {"localhost", "127.0.0.1", os.uname().nodename}
