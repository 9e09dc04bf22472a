"""Stand-in for PerfFlowAspect's package, which programs import whether that is installed or not."""

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
    """Finder of the package, which stands before all other finders.

    Parameters
    ----------
    aspect
        Name of the module that is imported as ``perfflowaspect.aspect``, when the program asks for it.
    """

    def __init__(self, aspect: str) -> None:
        self._aspect = aspect

    def install(self) -> None:
        """Replace the package from now on, in this process."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the package; loading it provides its module, too."""
        if name != PACKAGE:
            return None
        # Without the base class of loaders, which would have to be loaded in each process.
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None, for the usual module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Load the package, with its module."""
        aspect = import_module(self._aspect)
        module.__dict__["aspect"] = sys.modules[f"{PACKAGE}.aspect"] = aspect
