"""Names of functions, which tell functions of equal names in different modules apart."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Each Python that a traced program starts loads this module.
    from types import CodeType
    from typing import Any


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
