"""File and line of origin of the positions in a preprocessed source."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_MARKER = re.compile(rb'^# (\d+) "((?:[^"\\\n]|\\.)*)"((?: \d)*)[^\n]*$', re.MULTILINE)
_IN_SYSTEM = b"3"


@dataclass(frozen=True)
class SourceLine:
    """Location in an original source file."""

    file: bytes
    """Path as the preprocessor writes it, with ``\\`` before each ``"`` and ``\\``."""
    number: int
    flags: bytes
    """Flags of a line marker for the same kind of file, with a blank before each."""

    def marker(self, is_silent: bool = False) -> bytes:
        """Return a line marker that says that the next line comes from here.

        Parameters
        ----------
        is_silent
            Whether compilers are to print no warnings of what follows, as in a system header.
        """
        flags = self.flags or b" 3" if is_silent else self.flags
        return b'\n# %d "%s"%s\n' % (self.number, self.file, flags)


class LineMarkers:
    """Line markers of a preprocessed source.

    Parameters
    ----------
    text
        Preprocessed source.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._markers = list(_MARKER.finditer(text))
        self._begins = [marker.end() + 1 for marker in self._markers]

    def line_at(self, at: int) -> SourceLine:
        """Return the location of a position in the text."""
        number = bisect_right(self._begins, at) - 1
        if number < 0:
            return SourceLine(b"", self._text.count(b"\n", 0, at) + 1, b"")
        line, file, flags = self._markers[number].groups()
        kept = flags[flags.index(b" 3") :] if _IN_SYSTEM in flags else b""
        return SourceLine(file, int(line) + self._text.count(b"\n", self._begins[number], at), kept)
