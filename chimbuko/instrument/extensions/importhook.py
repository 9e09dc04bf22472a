"""Finders that notice when a Python program imports mpi4py, PyTorch or another package that computes with
it. They load next to nothing before.
"""

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


class WatchedImport:
    """Finder that notices the import of one module, and leaves the finding to all others.

    Parameters
    ----------
    module
        Name of the module.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def install(self) -> None:
        """Notice that import from now on, in this process and in those that it forks before that import."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders give."""
        if name != self._module:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                sys.meta_path.remove(self)
                if session.active is not None and spec.origin and hasattr(spec.loader, "create_module"):
                    loader: Any = _Watched(spec.loader, self)
                    spec.loader = loader
                return spec
        return None

    def before(self, origin: str) -> None:
        """Act before the module is loaded, of which this is the file."""

    def after(self) -> None:
        """Act after the module was loaded."""


class _Watched:
    """Loader that tells of a module's load, and gives way to the module's own loader.

    Finders are called under a lock that all imports need: another thread that imports would wait for this one
    while this one waits for a module of its.
    """

    def __init__(self, loader: Any, watch: WatchedImport) -> None:
        self._loader = loader
        self._watch = watch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if session.active is not None and spec.origin:
            self._watch.before(spec.origin)
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if session.active is not None:
            self._watch.after()


class MpiImport(WatchedImport):
    """Finder that has the recorder loaded before ``mpi4py.MPI``."""

    def __init__(self) -> None:
        super().__init__(MODULE)

    def before(self, origin: str) -> None:
        """Load the recorder for the MPI with which the module is linked."""
        if session.active is not None:
            from chimbuko.instrument.extensions.loading import record_beside

            record_beside(session.active, origin)


# Finders that notice when a Python program imports PyTorch, or another package that computes on GPUs.
#
# They load nothing before that.


ON_GPUS = ("cupy", "numba.cuda", "pycuda")
"""Packages that are there for nothing but CUDA."""


def watch_imports() -> None:
    """Notice these imports from now on, in this process and in those that it forks before them."""
    for package in ON_GPUS:
        GpuImport(package).install()
    TorchImport().install()


class TorchImport(WatchedImport):
    """Finder that has PyTorch observed once it is loaded."""

    def __init__(self) -> None:
        super().__init__("torch")

    def after(self) -> None:
        """Load the observer."""
        if session.active is not None:
            from chimbuko.instrument.extensions.observing import observe

            observe(session.active)


class GpuImport(WatchedImport):
    """Finder that has the recorder loaded before a package that uses GPUs."""

    def before(self, origin: str) -> None:
        """Load the recorder."""
        if session.active is not None:
            from chimbuko.instrument.extensions.observing import record_native

            record_native(session.active)
