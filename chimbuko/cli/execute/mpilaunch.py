"""Launcher of MPI programs in a command line, and the programs that it starts on this node."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chimbuko.core.errors import ConfigError

Recorded = Callable[[Sequence[str]], Sequence[str]]
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


def recorded_job(words: Sequence[str], recorded: Recorded) -> list[str] | None:
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
