"""Kinds of threads: what a thread is for, as far as its name and its process say."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

MAIN, OPENMP, SAMPLER, OTHER = "Main", "OpenMP", "Sampler", "Other"
NAMES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("MPI", ("async_progress*", "opal*", "orte*", "pmix*", "prte*", "ucx*", "ucp*", "cxi*", "mpich*")),
    ("ADIOS2", ("adios2*", "sst_*", "evpath*", "cmcontrol*")),
    ("TAU", ("tau_*", "tau-*")),
    ("Chimbuko", ("chimbuko*",)),
    ("GPU", ("cuda-*", "cuda0*", "hsa*", "rocr*", "nvidia*")),
    (OPENMP, ("omp*", "openmp*", "libomp*", "iomp*")),
)
"""Names that libraries give to their threads, as patterns in small letters; the first that matches counts."""


def kind_of(pid: int, tid: int, name: str, process_name: str, openmp: bool) -> str:
    """The kind of a thread.

    OpenMP's libraries give their threads no name, so that these carry their process's: where such a
    library is loaded they count as OpenMP's, which is a guess.
    """
    return MAIN if tid == pid else _kind_of_name(name, process_name, openmp)


@lru_cache(maxsize=4096)
def _kind_of_name(name: str, process_name: str, openmp: bool) -> str:
    small = name.lower()
    for kind, patterns in NAMES:
        if any(fnmatchcase(small, pattern) for pattern in patterns):
            return kind
    is_python = process_name.startswith("python")
    if name == process_name and openmp and not is_python:
        return OPENMP
    return "Python" if is_python and name == process_name else OTHER
