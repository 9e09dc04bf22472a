"""Which values of a parametrized test run each time; ``make thorough`` runs the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def first(keep: int, values: Iterable[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """``values`` as parameters, of which those behind the first ``keep`` are left to ``make thorough``."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=None if ids is None else ids[at],
            marks=[] if at < keep else [pytest.mark.thorough],
        )
        for at, value in enumerate(values)
    ]
