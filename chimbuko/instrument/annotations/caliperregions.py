"""Regions of Caliper for annotated calls, where the Python package that is built with it can be imported."""

from __future__ import annotations

import functools

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.tracer.pausing import by_turns, pauses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class CaliperRegions:
    """Functions of Caliper that begin and end regions.

    Raises
    ------
    ConfigError
        Caliper's Python package is missing.
    """

    def __init__(self) -> None:
        try:
            from pycaliper.instrumentation import begin_region, end_region
        except ImportError as error:
            raise ConfigError(
                "caliper-enable needs pycaliper, of a Caliper that is built with WITH_PYTHON_BINDINGS=ON "
                f"({error})"
            ) from error
        self.begin: Callable[[str], object] = begin_region
        self.end: Callable[[str], object] = end_region

    def around(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function with each call, or each turn of one, as a region."""
        if pauses(function):
            return by_turns(function, lambda: CaliperRegion(self, name))
        begin, end = self.begin, self.end

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            begin(name)
            try:
                return function(*args, **kwargs)
            finally:
                end(name)

        return noted


class CaliperRegion:
    """Context that is one region."""

    __slots__ = ("_name", "_regions")

    def __init__(self, regions: CaliperRegions, name: str) -> None:
        self._regions = regions
        self._name = name

    def __enter__(self) -> None:
        self._regions.begin(self._name)

    def __exit__(self, *error: object) -> None:
        self._regions.end(self._name)
