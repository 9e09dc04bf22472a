"""Failures of ours while the application runs: each is reported, and the run goes on without it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chimbuko.core.errors import ChimbukoError
from chimbuko.runtime.process.lifetime import log


class Failures:
    """Failures that must not reach the application, each reported once, however often it comes.

    Parameters
    ----------
    problems
        Gets one line for each.
    """

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._reported: set[str] = set()

    @contextmanager
    def survived(self, failing: str) -> Iterator[None]:
        """Go on after what is done in this context, also where it fails.

        Parameters
        ----------
        failing
            What it means for the user, as the beginning of a sentence.
        """
        try:
            yield
        except Exception as error:
            # The report may fail for the same reason.
            with suppress(Exception):
                self._report(failing, error)

    def _report(self, failing: str, error: Exception) -> None:
        if failing in self._reported:
            return
        self._reported.add(failing)
        line = f"{failing}: {words_of(error)}"
        self._problems.append(line)
        log(line)


def words_of(error: BaseException) -> str:
    """Return an error in one line, with its kind where it does not speak for itself."""
    text = next(iter(str(error).splitlines()), "")
    if isinstance(error, ChimbukoError):
        return text
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    # A fault of ours, most likely: where it is helps who mends it.
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
