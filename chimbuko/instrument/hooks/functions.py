"""Choice of the functions that are recorded, and their names, which tell functions of equal names in
different modules apart.
"""

from __future__ import annotations

import os
import sys
import weakref

import chimbuko
from chimbuko.instrument.hooks.greenlets import watch_greenlets
from chimbuko.instrument.hooks.turns import mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Each Python that a traced program starts loads this module.
    from types import CodeType
    from typing import Any


if TYPE_CHECKING:
    # Each Python that a traced program starts loads this module.
    from array import array
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any, Protocol

    from chimbuko.instrument.hooks.callbudget import CallBudget
    from chimbuko.instrument.hooks.greenlets import LanePool

    class Buffer(Protocol):
        """Rows that a thread has recorded."""

        number: int
        owner: Callable[[], object]
        events: list[int]
        counters: array[int]
        work: list[int]
        lanes: LanePool

    class Recorder(Protocol):
        """Recorder of calls."""

        is_recording: bool
        is_attached: bool
        """Whether the program ran already when its recording began."""
        files: SourceFiles
        of_thread: Any
        """Values of the calling thread: once it has a buffer, ``extend`` adds events to that."""

        def buffer(self) -> Buffer:
            """Return the buffer of the calling thread."""

        def describe_process(self, key: str, value: str) -> None:
            """Record metadata of the process."""

        def timer_code(self, name: str) -> int:
            """Return the code of the ENTRY of ``name`` (that of its EXIT is one higher), or ``SKIPPED``."""

        def counter_number(self, name: str) -> int:
            """Return the number of the counter ``name``, or ``SKIPPED``."""


SKIPPED = -1
"""Code of a timer that is not recorded."""

_OTHERS_FOLDERS = ("/site-packages/", "/dist-packages/")
_OURS = os.path.dirname(chimbuko.__file__) + "/"
_OTHERS = (_OURS, os.path.dirname(os.__file__) + "/", "<")
"""Beginnings of the names of files that are not the program's; ``<`` begins that of code without a file."""
_INLINED = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))
"""Names of comprehensions, which newer Pythons do not call as functions, so that they never count as such."""

_KNOWN = frozenset(
    (
        "torch.serialization.save",
        "torch.serialization.load",
        "torch.utils.data.dataloader._BaseDataLoaderIter.__next__",
    )
)
"""Functions of libraries that are recorded, too: by them a training is late, and they are called seldom."""


def is_of_others(function: CodeType) -> bool:
    """Whether a function is one of the standard library, of an installed package, or of ours."""
    file = function.co_filename
    return file.startswith(_OTHERS) or any(folder in file for folder in _OTHERS_FOLDERS)


never_recorded: dict[int, weakref.ref[CodeType]] = {}
"""Code objects, by id, that stay out of the trace or record themselves."""


def exclude(code: CodeType | None) -> None:
    """Keep a function out of the recording of functions; one without Python code is not recorded anyway."""
    if code is None:
        return
    key = id(code)

    def forget(_: weakref.ref[CodeType]) -> None:
        never_recorded.pop(key, None)

    never_recorded[key] = weakref.ref(code, forget)


def exclude_open(frame: FrameType | None) -> None:
    """Keep out the calls that are open already, such as that of pip's script for ``chimbuko``.

    Each would give an EXIT alone, and the last event of the stream would not be the end of the program.
    """
    while frame is not None:
        exclude(frame.f_code)
        frame = frame.f_back


class Functions:
    """Functions that have been called, and the codes by which they are recorded.

    Only functions of the program itself are recorded, and not those of the standard library or of
    installed packages, unless a pattern names them.

    Parameters
    ----------
    recorder
        Recorder that gives the codes.
    include
        Shell patterns of further functions, as ``module.function``.
    budget
        Budget that records them, but for those whose turns are followed.
    """

    def __init__(
        self, recorder: Recorder, include: tuple[str, ...], budget: CallBudget | None = None
    ) -> None:
        self.codes: dict[int, int] = {}
        """Codes of the ENTRY of functions, or ``SKIPPED``, by the ids of their code objects."""
        self.followed: dict[int, int] = {}
        """Marks of functions whose turns are followed (see ``turns``); these are not among the codes."""
        self._recorder = recorder
        self._include = include
        self._budget = budget
        self._known: dict[int, weakref.ref[CodeType]] = {}

    def decide(self, frame: FrameType) -> int:
        """Return the code of the function of a frame, which is called for the first time."""
        # A program that has just imported greenlet has called a new function.
        watch_greenlets(self._recorder)
        function = frame.f_code
        wanted = self._is_wanted(function, frame.f_globals.get("__name__", ""))
        code, name = SKIPPED, ""
        if wanted:
            name = self._recorder.files.function_name(function, frame.f_globals)
            code = self._recorder.timer_code(name)
        code = mark(code, function)
        key = id(function)
        # Programs make functions at run time: their ids are reused, and there may be any number of them.
        self._known[key] = weakref.ref(function, lambda _: self._forget(key))
        (self.codes if code >= SKIPPED else self.followed)[key] = code
        if self._budget is not None and code >= SKIPPED:
            self._budget.add(function, code, name)
        return code

    def mark_of(self, function: CodeType) -> int | None:
        """Return the code of a function, or the mark of one that is followed; None for one that is new."""
        key = id(function)
        return self.codes[key] if key in self.codes else self.followed.get(key)

    def _forget(self, key: int) -> None:
        self.codes.pop(key, None)
        self.followed.pop(key, None)
        self._known.pop(key, None)
        if self._budget is not None:
            self._budget.forget(key)

    def _is_wanted(self, function: CodeType, module: str) -> bool:
        if id(function) in never_recorded or function.co_name in _INLINED:
            return False
        if self._include and self._is_included(f"{module}.{function.co_qualname}"):
            return True
        if module == "__main__":
            return not function.co_filename.startswith((_OURS, "<"))
        return not is_of_others(function) or f"{module}.{function.co_qualname}" in _KNOWN

    def _is_included(self, name: str) -> bool:
        import fnmatch

        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._include)


class SourceFiles:
    """Source files of the functions that have been called, and the form in which names hold them.

    A name must be the same in all ranks and in a later run from another folder, so it has no whole path
    where something shorter tells the file: the path within a package, or from the script's folder on.

    Parameters
    ----------
    folder
        Folder of the script with which the program began.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "")
        self._files: dict[str, str] = {}

    def function_name(self, code: CodeType, names: dict[str, Any]) -> str:
        """Return the name of a function in TAU's format: ``name [{package/file.py}{line}]``.

        Parameters
        ----------
        names
            Global names of the function, which tell its module.
        """
        return f"{code.co_qualname} [{{{self._shown(code.co_filename, names)}}}{{{code.co_firstlineno}}}]"

    def _shown(self, file: str, names: dict[str, Any]) -> str:
        shown = _within_package(file, names) or file.removeprefix(self._folder)
        # Programs may load several files as one module, such as plugins.
        return shown if self._files.setdefault(shown, file) == file else file


def _within_package(file: str, names: dict[str, Any]) -> str:
    """Return ``package/module.py`` for the file of an imported module; empty for any other."""
    module = names.get("__name__")
    loaded = sys.modules.get(module) if isinstance(module, str) else None
    if loaded is None or getattr(loaded, "__dict__", None) is not names:
        return ""
    # What runs as -m package.module is named __main__, and its specification has the module's own name.
    path = str(getattr(names.get("__spec__"), "name", module)).replace(".", "/")
    return next((end for end in (f"{path}.py", f"{path}/__init__.py") if file.endswith(f"/{end}")), "")
