"""Name of the program that a command runs, without what starts, times or traces it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec


class _Wrapper(msgspec.Struct, frozen=True):
    """A program that starts another, whose command follows its own options."""

    values: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    words: int = 0
    """Number of words of its own before the command, such as a duration."""


def _with(values: str, words: int = 0) -> _Wrapper:
    return _Wrapper(frozenset(values.split()), words)


_MPI = _with(
    "-n -np -c --np --n -H -host --host -hosts --hosts -f -hostfile --hostfile -machinefile --machinefile "
    "-map-by --map-by -bind-to --bind-to -rank-by --rank-by -N -npernode --npernode -ppn --ppn -x "
    "-wdir --wdir -env -genv -mca --mca"
)
_SLURM = _with(
    "-n -N -c -p -t -A -w -x -J -o -e -i -D -G -q -m -C -d --ntasks --nodes --cpus-per-task --partition "
    "--time --account --nodelist --job-name --output --error --chdir --gpus --qos --mpi --jobid "
    "--ntasks-per-node"
)
_TWO_VALUES = frozenset({"-env", "-genv", "-mca", "--mca"})
_SHELL = _with("-o")
_MPI_NAMES = """mpirun mpiexec mpirun.mpich mpiexec.mpich mpirun.openmpi mpiexec.openmpi mpiexec.hydra
orterun prterun aprun jsrun ibrun"""
"""Names of MPI launchers; Debian has those of several MPIs beside each other."""
_WRAPPERS = {
    **dict.fromkeys(_MPI_NAMES.split(), _MPI),
    "srun": _SLURM,
    "env": _with("-u -C -S --unset --chdir"),
    "time": _with("-f -o --format --output"),
    "nice": _with("-n --adjustment"),
    "timeout": _with("-s -k --signal --kill-after", 1),
    "taskset": _Wrapper(words=1),
    "numactl": _with("-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred"),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "stdbuf": _with("-i -o -e"),
    "exec": _Wrapper(),
    "tau_exec": _with("-T -ebs_period -ebs_source"),
    **dict.fromkeys(("sh", "bash", "dash", "zsh"), _SHELL),
}
ATTACHED = "--program"
"""Option of ``chimbuko attach`` by which the command of a run says whose process it is."""
_CHIMBUKO_TRACE = _with("--rank --include --aspect", 1)
_CHIMBUKO_BESIDE = _with("--service --folder --program", 2)
_PYTHON = re.compile(r"python[\d.]*t?")
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)


def program_of(command: Sequence[str]) -> str:
    """Return the name of the program that a command runs: ``heat2d`` of ``mpirun -n 4 ./heat2d``, ``etl`` of
    ``python -u etl.py``. Where that cannot be found it is the command's own name.
    """
    words = list(command)
    own = found = Path(words[0]).name
    while words:
        found = Path(words.pop(0)).name
        if _PYTHON.fullmatch(found):
            wrapper, is_python = _with("-W -X"), True
        elif found == "chimbuko" and words[:1] == ["trace"]:
            wrapper, is_python = _CHIMBUKO_TRACE, False
        elif found == "chimbuko" and words[:2] in (["namespaces", "relay"], ["namespaces", "caliper"]):
            wrapper, is_python = _CHIMBUKO_BESIDE, False
        elif found == "chimbuko" and words[:1] == ["attach"] and ATTACHED in words[:-1]:
            return words[words.index(ATTACHED) + 1]
        elif found in _WRAPPERS:
            wrapper, is_python = _WRAPPERS[found], False
        else:
            return found.removesuffix(".py") or own
        skipped = 0
        while words and (
            words[0].startswith("-") or _ASSIGNMENT.fullmatch(words[0]) or skipped < wrapper.words
        ):
            word = words.pop(0)
            if word in ("-c", "-lc") and (is_python or wrapper is _SHELL):
                # What follows is a program's text.
                return found
            if is_python and word == "-m":
                break
            if word in wrapper.values:
                del words[: 2 if word in _TWO_VALUES else 1]
            skipped += not word.startswith("-") and not _ASSIGNMENT.fullmatch(word)
    return own


def as_folder(program: str) -> str:
    """Return a program's name for that of a folder: without characters that a shell, or a terminal, takes for
    something else.
    """
    return re.sub(r"[^\w.+@-]+", "-", program)
