"""Annotates functions by their names while a program imports them, in all its processes."""

from __future__ import annotations

import atexit
import os
import sys
from importlib.abc import MetaPathFinder
from types import FunctionType, ModuleType

from chimbuko.instrument.annotations.aspects import critical_path
from chimbuko.instrument.annotations.namepatterns import NamePattern, parse_pattern
from chimbuko.instrument.annotations.tally import Tally
from chimbuko.instrument.annotations.weaving import weave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType
    from typing import Any

VARIABLE = "CHIMBUKO_ASPECTS"
"""In the environment of processes that the program starts: where the tally is, and the patterns."""
MAIN = "__main__"
_SEPARATOR = "\t"


def install(patterns: Sequence[NamePattern]) -> Callable[..., Any]:
    """Annotate from now on what the program imports, and report at its end which patterns nothing matched.

    Returns
    -------
    Callable
        To be called as ``compile`` for the program's script.
    """
    hook = ImportHook(patterns, Tally.of(len(patterns)))
    os.environ[VARIABLE] = _SEPARATOR.join((hook.tally.place, *(pattern.text for pattern in patterns)))
    atexit.register(hook.report, os.getpid())
    return hook.compiled_main


def install_from_environment() -> None:
    """In a process that the program has started: the same, without a report."""
    place, *texts = os.environ[VARIABLE].split(_SEPARATOR)
    ImportHook([parse_pattern(text) for text in texts], Tally.at(place, len(texts)))


class ImportHook(MetaPathFinder):
    """Stands before all other finders, and leaves all to them but the compilation.

    Parameters
    ----------
    tally
        Of the patterns that a function was found for.
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
        """As the others say, with a loader that annotates."""
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
        """Code of a module, annotated; None where nothing of it is."""
        woven = weave(source, path, self._of_module(module))
        if woven is None:
            return None
        self._count(woven.met)
        return woven.code

    def compiled_main(self, source: bytes, path: str, *others: Any, **options: Any) -> Any:
        """Code of the program's script."""
        return self.woven(source, path, MAIN) or compile(source, path, *others, **options)

    def report(self, pid: int) -> None:
        """Patterns that nothing matched, in the process that began with them."""
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
        """Have a loader compile annotated sources; what has none stays as it is."""
        get_code: Any = getattr(loader, "get_code", None)
        if not hasattr(loader, "get_filename") or getattr(get_code, "__module__", __name__) == __name__:
            # It cannot be asked, or has been seen to: some load many modules.
            return

        def code_of(name: str) -> CodeType | None:
            # Compiled files are not read, and none is written: they have no annotations.
            source = loader.get_source(name)
            woven = None if source is None else self.woven(source, loader.get_filename(name), name)
            code: CodeType | None = woven or get_code(name)
            return code

        loader.get_code = code_of

    def _see_to_main(self) -> None:
        """Spawned processes of multiprocessing run the program's script anew, which runpy compiles itself."""
        import runpy

        runpy.compile = self.compiled_main  # type: ignore[attr-defined]

    def _annotate_loaded(self, module: ModuleType, name: str, wanted: list[NamePattern]) -> None:
        """What was imported before the program, as parts of the standard library are."""
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
