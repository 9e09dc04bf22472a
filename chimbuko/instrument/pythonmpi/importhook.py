"""Finder that notices when a Python program imports mpi4py. It loads next to nothing before that."""

from __future__ import annotations

import sys

from chimbuko.instrument.tracer import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

MODULE = "mpi4py.MPI"


class MpiImport:
    """Finder that has the recorder loaded before ``mpi4py.MPI``, and leaves the finding to all others."""

    def install(self) -> None:
        """Notice that import from now on, in this process and in those that it forks before that import."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders give."""
        if name != MODULE:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                sys.meta_path.remove(self)
                if session.active is not None and spec.origin and hasattr(spec.loader, "create_module"):
                    first: Any = _FirstTheRecorder(spec.loader)
                    spec.loader = first
                return spec
        return None


class _FirstTheRecorder:
    """Loader that loads the recorder before a module, and then gives way to the module's own loader.

    Finders are called under a lock that all imports need: another thread that imports would wait for this one
    while this one waits for a module of its.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        spec.loader = self._loader
        if session.active is not None and spec.origin:
            from chimbuko.instrument.pythonmpi.loading import record_beside

            record_beside(session.active, spec.origin)
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
