"""Patterns of the names of functions that are annotated without a change to their sources."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import POINTCUTS


@dataclass(frozen=True)
class NamePattern:
    """Pattern of functions, and the pointcut by which they are recorded."""

    text: str
    module: str
    """Shell pattern of the dotted names of modules; ``*`` stands for any number of parts."""
    function: tuple[str, ...]
    """Shell patterns of the parts of a function's qualified name, one for each part."""
    pointcut: str

    def is_of_module(self, module: str) -> bool:
        """Whether functions of the module may match."""
        return fnmatchcase(module, self.module)

    def matches(self, qualified_name: str) -> bool:
        """Whether a function of such a module matches, given its ``__qualname__``."""
        parts = qualified_name.split(".")
        return len(parts) == len(self.function) and all(map(fnmatchcase, parts, self.function))


def parse_pattern(text: str) -> NamePattern:
    """Return the pattern that ``MODULE:FUNCTION`` or ``MODULE:FUNCTION:POINTCUT`` describes.

    Raises
    ------
    ConfigError
        The text has another form, or the pointcut is unknown.
    """
    module, _, rest = text.partition(":")
    function, _, pointcut = rest.partition(":")
    if not module or not function or "\t" in text:
        raise ConfigError(f"{text!r} is no MODULE:FUNCTION or MODULE:FUNCTION:POINTCUT, as 'pkg.mod:solve*'")
    if pointcut and pointcut not in POINTCUTS:
        raise ConfigError(f"{text!r}: the pointcut is one of {', '.join(POINTCUTS)}, not {pointcut!r}")
    return NamePattern(text, module, tuple(function.split(".")), pointcut or POINTCUTS[0])
