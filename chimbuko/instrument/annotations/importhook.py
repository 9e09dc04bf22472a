"""Import hooks for annotations in all processes of a program: functions annotated by their names, and a
stand-in for PerfFlowAspect's package.

A tally in shared memory counts which patterns have met a function in any of these processes.
"""

from __future__ import annotations

import atexit
import mmap
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType

from chimbuko.instrument.annotations.aspects import critical_path
from chimbuko.instrument.annotations.weaving import NamePattern, parse_pattern, weave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Any, Self


_NAME = "chimbuko-tally"


class Tally:
    """Marks for the entries of a list; a mark is never removed.

    Parameters
    ----------
    descriptor
        Descriptor of the shared memory; None if the marks are this process's own.
    """

    def __init__(self, descriptor: int | None, size: int) -> None:
        self.place = "" if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"
        """Path by which other processes find the tally."""
        self._marks = mmap.mmap(-1 if descriptor is None else descriptor, size)

    @classmethod
    def of(cls, size: int) -> Self:
        """Make a tally. Its memory is freed when this process ends, however it does."""
        try:
            descriptor = os.memfd_create(_NAME)
            os.ftruncate(descriptor, size)
        except OSError:
            return cls(None, size)
        return cls(descriptor, size)

    @classmethod
    def at(cls, place: str, size: int) -> Self:
        """Return the tally of another process; a new one where that process has ended."""
        with suppress(OSError):
            # The program may have closed the descriptor, and opened a file of its own under that number.
            if _NAME in os.readlink(place):
                descriptor = os.open(place, os.O_RDWR | os.O_CLOEXEC)
                try:
                    return cls(descriptor, size)
                finally:
                    os.close(descriptor)
        return cls(None, size)

    def count(self, at: int) -> None:
        """Mark an entry."""
        self._marks[at] = 1

    def has(self, at: int) -> bool:
        """Whether an entry is marked."""
        return bool(self._marks[at])


VARIABLE = "CHIMBUKO_ASPECTS"
"""Environment variable with the path of the tally and the patterns, for processes that the program starts."""
MAIN = "__main__"
_SEPARATOR = "\t"


def install(patterns: Sequence[NamePattern]) -> Callable[..., Any]:
    """Annotate functions that the program imports from now on; report at its end patterns without a match.

    Returns
    -------
    Callable
        Function to call in place of ``compile`` for the program's script.
    """
    hook = ImportHook(patterns, Tally.of(len(patterns)))
    os.environ[VARIABLE] = _SEPARATOR.join((hook.tally.place, *(pattern.text for pattern in patterns)))
    atexit.register(hook.report, os.getpid())
    return hook.compiled_main


def install_from_environment() -> None:
    """Annotate functions in a process that the program has started, without a report."""
    place, *texts = os.environ[VARIABLE].split(_SEPARATOR)
    ImportHook([parse_pattern(text) for text in texts], Tally.at(place, len(texts)))


class ImportHook(MetaPathFinder):
    """Finder that stands before all others, and leaves all but the compilation of modules to them.

    Parameters
    ----------
    tally
        Tally of the patterns that have matched a function.
    """

    def __init__(self, patterns: Sequence[NamePattern], tally: Tally) -> None:
        self.tally = tally
        self._patterns = patterns
        for name, module in list(sys.modules.items()):
            if name != MAIN and (wanted := self._of_module(name)):
                self._annotate_loaded(module, name, wanted)
        sys.meta_path.insert(0, self)
        if self._of_module(MAIN):
            self._see_to_main()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders give, with a loader that annotates."""
        if not self._of_module(name):
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                self._see_to(spec.loader)
                return spec
        return None

    def woven(self, source: str | bytes, path: str, module: str) -> CodeType | None:
        """Return the annotated code of a module; None if no function of it is annotated."""
        woven = weave(source, path, self._of_module(module))
        if woven is None:
            return None
        self._count(woven.met)
        return woven.code

    def compiled_main(self, source: bytes, path: str, *others: Any, **options: Any) -> Any:
        """Return the code of the program's script."""
        return self.woven(source, path, MAIN) or compile(source, path, *others, **options)

    def report(self, pid: int) -> None:
        """Print the patterns that matched no function, in the process in which the program began."""
        unmatched = [repr(p.text) for at, p in enumerate(self._patterns) if not self.tally.has(at)]
        if unmatched and pid == os.getpid():
            said = f"no function that the program has loaded matches --aspect {', '.join(unmatched)}"
            print(f"chimbuko: {said}", file=sys.stderr)

    def _of_module(self, module: str) -> list[NamePattern]:
        return [pattern for pattern in self._patterns if pattern.is_of_module(module)]

    def _count(self, met: Iterable[NamePattern]) -> None:
        for pattern in met:
            self.tally.count(self._patterns.index(pattern))

    def _see_to(self, loader: Any) -> None:
        """Make a loader compile annotated sources; one without sources stays as it is."""
        get_code: Any = getattr(loader, "get_code", None)
        if not hasattr(loader, "get_filename") or getattr(get_code, "__module__", __name__) == __name__:
            # The loader has no sources, or is changed already: some load many modules.
            return

        def code_of(name: str) -> CodeType | None:
            # Compiled files have no annotations: none is read, and none is written.
            source = loader.get_source(name)
            woven = None if source is None else self.woven(source, loader.get_filename(name), name)
            code: CodeType | None = woven or get_code(name)
            return code

        loader.get_code = code_of

    def _see_to_main(self) -> None:
        """Annotate the program's script in spawned processes of multiprocessing, where runpy compiles it."""
        import runpy

        runpy.compile = self.compiled_main  # type: ignore[attr-defined]

    def _annotate_loaded(self, module: ModuleType, name: str, wanted: list[NamePattern]) -> None:
        """Annotate functions of a module that was imported before the program began."""
        for holder in (module, *(value for value in vars(module).values() if isinstance(value, type))):
            for key, value in list(vars(holder).items()):
                function = getattr(value, "__func__", value)
                if not isinstance(function, FunctionType) or function.__module__ != name:
                    continue
                matching = [pattern for pattern in wanted if pattern.matches(function.__qualname__)]
                if matching and function.__qualname__.rpartition(".")[2] == key:
                    annotated = critical_path(matching[0].pointcut)(function)
                    self._count(matching)
                    setattr(holder, key, annotated if function is value else type(value)(annotated))


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
