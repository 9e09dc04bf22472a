"""Environment of a run, as far as it explains the timings: settings of the job, versions, the machine."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.core.names import name_matcher
from chimbuko.core.redaction import is_secret, without_secret

VARIABLES = (
    *("TAU_*", "PROFILEDIR", "ADIOS2*", "SST_*", "LD_PRELOAD"),
    *("OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*"),
    *("CUDA_*", "NVIDIA_*", "ROCR_*", "HIP_*", "GPU_*", "ZE_*"),
    *("SLURM_*", "PBS_*", "LSB_*", "FLUX_*", "COBALT_*", "PALS_*", "JSM_*"),
    *(
        "PMI_*",
        "PMIX_*",
        "OMPI_*",
        "MPICH_*",
        "MV2_*",
        "I_MPI_*",
        "MPI_*",
        "MPIR_*",
        "MPIEXEC_*",
        "CRAY_*",
        "FI_*",
        "UCX_*",
    ),
    *("LOADEDMODULES", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV"),
)
"""Names, or patterns, of environment variables that are kept."""
LONGEST = 1000
"""Maximum length of a kept value in characters; LOADEDMODULES may have thousands."""
PACKAGES = ("adios2", "numpy", "numba", "sqlalchemy")
_CPUINFO = Path("/proc/cpuinfo")

_matchers = [name_matcher(pattern) for pattern in VARIABLES]


def surroundings() -> dict[str, str]:
    """Return environment variables (by their names) and facts (by lower-case names) of this process."""
    return kept_variables(os.environ) | _facts()


def kept_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that say how a program was run; none whose name sounds
    secret.
    """
    return {
        name: without_secret(value[:LONGEST])
        for name, value in sorted(environment.items())
        if any(matches(name) for matches in _matchers) and not is_secret(name)
    }


BASELINE = "baseline"
"""Name of the fact that says what a run began with."""
LABEL = "label "
"""Beginning of the names of the labels of a run among its facts."""


def labelled(labels: Sequence[str]) -> dict[str, str]:
    """Return the facts that labels ``key=value`` are.

    Raises
    ------
    ConfigError
        One of them is no label.
    """
    facts = {}
    for label in labels:
        key, sign, value = label.partition("=")
        if not (sign and key and value) or is_secret(key):
            raise ConfigError(f"--label {label!r}: not KEY=VALUE; give one like input=large")
        facts[LABEL + key] = value[:LONGEST]
    return facts


def cpu_model(cpuinfo: str) -> str:
    """Return the model of the first processor in the text of ``/proc/cpuinfo``; empty if it names none."""
    fields = (line.partition(":") for line in cpuinfo.splitlines())
    return next((value.strip() for name, _, value in fields if name.strip() == "model name"), "")


def git_commit(folder: Path) -> str:
    """Return the commit that is checked out in the repository around a folder; empty outside of one.

    Git itself is not asked: a run would wait for it.
    """
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            with suppress(OSError, UnicodeDecodeError):
                return _commit_of(parent / ".git")
            break
    return ""


def _commit_of(place: Path) -> str:
    if place.is_file():
        # A further work tree names its folder in the repository.
        place = place.parent / place.read_text().removeprefix("gitdir:").strip()
    head = (place / "HEAD").read_text().strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    common = place / (place / "commondir").read_text().strip() if (place / "commondir").exists() else place
    for folder in (place, common):
        if (folder / name).exists():
            return (folder / name).read_text().strip()
    packed = (common / "packed-refs").read_text().splitlines()
    return next((line.partition(" ")[0] for line in packed if line.endswith(f" {name}")), "")


def _facts() -> dict[str, str]:
    facts = {
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_model(_CPUINFO.read_text()) if _CPUINFO.exists() else "",
        "cores": str(len(os.sched_getaffinity(0))),
        "python": platform.python_version(),
        "tau_exec": shutil.which("tau_exec") or "",
        "commit": git_commit(Path.cwd()),
    }
    for package in PACKAGES:
        facts[package] = _version(package)
    return {name: value for name, value in facts.items() if value}


def _version(package: str) -> str:
    # Most who import this module only want names from it, and that takes 20 ms.
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
