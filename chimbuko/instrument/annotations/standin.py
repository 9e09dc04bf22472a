"""Programs that import PerfFlowAspect's package have ours in its place, whether it is installed or not."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PACKAGE = "perfflowaspect"


class StandIn:
    """Finds the package for ``import``, before all other finders do.

    Parameters
    ----------
    aspect
        Name of the module that is ``perfflowaspect.aspect``. It is loaded when the program asks for it.
    """

    def __init__(self, aspect: str) -> None:
        self._aspect = aspect

    def install(self) -> None:
        """From now on, in this process."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of the package itself; its module is there once this is loaded."""
        if name != PACKAGE:
            return None
        # The base class of loaders would have to be loaded in each process.
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As usual."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """The package, with its module."""
        aspect = import_module(self._aspect)
        module.__dict__["aspect"] = sys.modules[f"{PACKAGE}.aspect"] = aspect
