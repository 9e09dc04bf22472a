"""Name of a trace file of PerfFlowAspect: component, place in nested workflows, node and process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from chimbuko.instrument.annotations.options import Options

INSTANCE_PATH_VARIABLE = "PERFFLOW_INSTANCE_PATH"
DIGITS = 8


def instance_path(environment: Mapping[str, str]) -> str:
    """Return the ids of the nested workflows of this program, the outermost first, joined by dots.

    Source: PerfFlowAspect's rules for file names. An instance is a job of Flux, else a step of Slurm, else a
    job of LSF, else the Flux broker that the program talks to; the last three are given by the first eight
    digits of the SHA-1 of their ids. A program that starts others passes its path on in
    ``PERFFLOW_INSTANCE_PATH``.
    """
    own = environment.get("FLUX_JOB_ID") or _digest(_foreign_id(environment) or _broker(environment))
    outer = environment.get(INSTANCE_PATH_VARIABLE)
    return f"{outer}.{own}" if outer else own


def file_name(options: Options, path: str, host: str, pid: int) -> str:
    """Return ``perfflow.<array|object>[.<name>][.{<instance path>}][.<host>][.<pid>].pfw``, in that order."""
    parts = {"name": options.name, "instance-path": f"{{{path}}}", "hostname": host, "pid": str(pid)}
    words = ["perfflow", "object" if options.is_object else "array"]
    return ".".join([*words, *(parts[part] for part in options.file_name_parts), "pfw"])


def _foreign_id(environment: Mapping[str, str]) -> str | None:
    for job, step in (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("LSB_JOBID", "LS_JOBPID")):
        if job in environment:
            return f"{environment[job]}.{environment[step]}" if step in environment else None
    return None


def _broker(environment: Mapping[str, str]) -> str:
    address = environment.get("FLUX_URI")
    return "1" if address is None else os.path.dirname(urlsplit(address).path)


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:DIGITS]
