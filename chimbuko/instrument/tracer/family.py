"""Settings that all processes of one traced program share, and their way to the processes that they start.

A family is the process in which tracing began, all processes that it and its children fork, and all that
they start with the same interpreter. Forked children have the settings in their memory. The others get them
by the environment, where a folder on ``PYTHONPATH`` makes the interpreter read them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

FAMILY_VARIABLE = "CHIMBUKO_FAMILY"
STARTUP_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "startup")
"""Folder of the ``sitecustomize`` that a child's interpreter finds first; it imports the program's own."""

SEPARATOR = "\t"
FIRST_VARIABLE = "CHIMBUKO_FAMILY_FIRST"
"""Environment variable with the id of a process that becomes an interpreter, and the first of a family."""


class Family:
    """Settings of a family.

    Parameters
    ----------
    address
        Path of the socket on which the writer server accepts new members.
    program, rank
        Program and rank in the names of the streams of all members.
    folder
        Folder of the script with which the program began.
    interpreter
        Path of the Python in which this package is installed: members may run another one.
    """

    def __init__(self, address: str, program: str, rank: int, folder: str, interpreter: str) -> None:
        self.address = address
        self.program = program
        self.rank = rank
        self.folder = folder
        self.interpreter = interpreter
        self.include: tuple[str, ...] | None = None
        """Patterns of further functions to record; None if no functions are recorded."""
        self.with_builtins = False
        self.library = ""
        """Path of the library that records functions as far as a budget goes; empty for none."""

    def text(self) -> str:
        """Return the settings as one text for the environment."""
        options = "none" if self.include is None else "builtins" if self.with_builtins else "functions"
        paths = (self.folder, self.interpreter, self.library)
        folder, interpreter, library = ("" if SEPARATOR in path else path for path in paths)
        fields = (self.address, self.program, str(self.rank), folder, interpreter, options, library)
        return SEPARATOR.join((*fields, *(self.include or ())))

    @classmethod
    def from_text(cls, text: str) -> Family:
        """Return the family that :meth:`text` describes."""
        address, program, rank, folder, interpreter, options, library, *include = text.split(SEPARATOR)
        family = cls(address, program, int(rank), folder, interpreter)
        family.library = library
        family.include = None if options == "none" else tuple(include)
        family.with_builtins = options == "builtins"
        return family

    def enter(self, environment: MutableMapping[str, str]) -> None:
        """Change ``environment`` so that processes that are started with it become members."""
        leave(environment)
        environment[FAMILY_VARIABLE] = self.text()
        # It comes first: an interpreter imports only the first sitecustomize.
        paths = (STARTUP_FOLDER, environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def leave(environment: MutableMapping[str, str]) -> None:
    """Undo :meth:`Family.enter`."""
    if environment.pop(FAMILY_VARIABLE, None) is None:
        return
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    if kept := [path for path in paths if path != STARTUP_FOLDER]:
        environment["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        environment.pop("PYTHONPATH", None)
