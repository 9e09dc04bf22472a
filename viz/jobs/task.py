"""Long question: a function with typed parameters, progress, and a typed answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.query.run import Provenance
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.api.answers import encode, object_type

Progress = Callable[[float, str], None]
"""Function called with the share of the work that is done, from 0 to 1, and a description of the present
work, like ``Reading rank 1164, step 86``.
"""


@dataclass(frozen=True)
class JobRun:
    """Run that a question is about, as a worker has it."""

    directory: RunDirectory
    provenance: Provenance
    """Stored results of the run."""
    folder: Path
    """Empty folder of the job's own, for files that it writes; removed a minute after the answer."""


class AnswerFile(msgspec.Struct, frozen=True):
    """Answer in the form of a file in the job's folder, which the browser saves."""

    name: str
    """Name of the file, without folders."""


@dataclass(frozen=True)
class Task:
    """Kind of long question."""

    name: str
    work: Callable[..., Any]
    parameters: type[msgspec.Struct]
    answer: Any
    """Type of the answer, as a JSON object."""

    def read(self, given: object) -> msgspec.Struct:
        """Return the parameters as a page gave them.

        Raises
        ------
        ConfigError
            They are not those of this question.
        """
        try:
            # Numbers may come as texts: filters are reported as the HTTP API takes them.
            return msgspec.convert(given, self.parameters, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{self.name}: {error}") from None

    def encoded(self, answer: Any) -> bytes:
        """Return an answer as JSON."""
        return encode(answer, self.answer)


def task(name: str) -> Callable[[Callable[..., Any]], Task]:
    """Return a decorator that makes a long question of a function of a ``JobRun``, a struct of parameters
    and a ``Progress``.

    It returns a struct, or an ``AnswerFile``, and raises a ``ChimbukoError`` whose text the user reads. It
    runs in a process of its own, which may be killed at any time: what it leaves behind, outside its folder,
    must be whole.
    """

    def make(work: Callable[..., Any]) -> Task:
        hints = get_type_hints(work)
        parameters = hints[list(inspect.signature(work).parameters)[1]]
        return Task(name, work, parameters, object_type(hints["return"]))

    return make
