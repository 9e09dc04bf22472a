"""Options of PerfFlowAspect, from ``PERFFLOW_OPTIONS``, and the name of the trace file that they ask for.

The name holds the component, the place in nested workflows, the node and the process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from chimbuko.core.errors import ConfigError

VARIABLE = "PERFFLOW_OPTIONS"
_WORDS = {"true": True, "false": False}
FILE_NAME_PARTS = ("name", "instance-path", "hostname", "pid")


@dataclass(frozen=True)
class Options:
    """Options of PerfFlowAspect, with its defaults."""

    name: str = "generic"
    """Name of a workflow's component, for the name of the file."""
    file_name_parts: tuple[str, ...] = ("hostname", "pid")
    """Parts of the file's name, of ``FILE_NAME_PARTS``, in their order."""
    folder: str = "./"
    """Folder of the file; it is made where it does not exist."""
    is_enabled: bool = True
    has_usage: bool = False
    """Whether the CPU time and memory of each call are recorded."""
    is_compact: bool = False
    """Whether a call is one event (``X``), in place of two (``B``, ``E``)."""
    is_object: bool = False
    """Whether the file holds a JSON object, in place of a JSON array."""
    is_for_caliper: bool = False
    """Whether calls are regions of Caliper, too, where its Python package is there."""


def parse_options(text: str) -> Options:
    """Return the options in ``key=value:key=value``; those that are not named have their defaults.

    Source: PerfFlowAspect's documentation, "PERFFLOW_OPTIONS". Keys and values are those of its Python and
    C++ parts; words such as ``True`` and ``Compact`` may be written in small letters.

    Raises
    ------
    ConfigError
        A part is not a pair, a key is unknown, or a value is not one that its key takes.
    """
    found: dict[str, object] = {}
    for part in filter(None, text.split(":")):
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS:
            raise ConfigError(f"{VARIABLE}: {part!r} is none of {', '.join(f'{known}=…' for known in _KEYS)}")
        field, values = _KEYS[key]
        found[field] = _value(key, value, values)
    return Options(**found)  # type: ignore[arg-type]


def _value(key: str, value: str, values: dict[str, bool] | None) -> object:
    if key == "log-filename-include":
        parts = tuple(value.split(","))
        if unknown := [part for part in parts if part not in FILE_NAME_PARTS]:
            raise ConfigError(f"{VARIABLE}: {key} takes {', '.join(FILE_NAME_PARTS)}, not {unknown[0]!r}")
        return parts
    if values is None:
        return value
    if value.lower() not in values:
        raise ConfigError(f"{VARIABLE}: {key} is {' or '.join(values)}, not {value!r}")
    return values[value.lower()]


_KEYS: dict[str, tuple[str, dict[str, bool] | None]] = {
    "name": ("name", None),
    "log-filename-include": ("file_name_parts", None),
    "log-dir": ("folder", None),
    "log-enable": ("is_enabled", _WORDS),
    "cpu-mem-usage": ("has_usage", _WORDS),
    "log-event": ("is_compact", {"verbose": False, "compact": True}),
    "log-format": ("is_object", {"array": False, "object": True}),
    "caliper-enable": ("is_for_caliper", _WORDS),
}


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
