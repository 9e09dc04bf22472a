"""Patterns of names: which functions are annotated without a change to their sources."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import POINTCUTS


@dataclass(frozen=True)
class NamePattern:
    """Functions of some modules, and what is noted of them."""

    text: str
    module: str
    """Shell pattern of dotted names; ``*`` stands for any number of parts."""
    function: tuple[str, ...]
    """Shell patterns of the parts of a qualified name, one for each."""
    pointcut: str

    def is_of_module(self, module: str) -> bool:
        """Whether functions of a module may match."""
        return fnmatchcase(module, self.module)

    def matches(self, qualified_name: str) -> bool:
        """Whether a function of such a module does, by its ``__qualname__``."""
        parts = qualified_name.split(".")
        return len(parts) == len(self.function) and all(map(fnmatchcase, parts, self.function))


def parse_pattern(text: str) -> NamePattern:
    """A pattern from ``MODULE:FUNCTION`` or ``MODULE:FUNCTION:POINTCUT``.

    Raises
    ------
    ConfigError
        It has another form, or there is no such pointcut.
    """
    module, _, rest = text.partition(":")
    function, _, pointcut = rest.partition(":")
    if not module or not function or "\t" in text:
        raise ConfigError(f"{text!r} is no MODULE:FUNCTION or MODULE:FUNCTION:POINTCUT, as 'pkg.mod:solve*'")
    if pointcut and pointcut not in POINTCUTS:
        raise ConfigError(f"{text!r}: the pointcut is one of {', '.join(POINTCUTS)}, not {pointcut!r}")
    return NamePattern(text, module, tuple(function.split(".")), pointcut or POINTCUTS[0])
