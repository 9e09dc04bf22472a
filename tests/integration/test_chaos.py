"""The program runs to its end and is analysed, whatever dies around it; ``make chaos`` tries 100."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.integration.chaos import Chaos, strikes_of


@pytest.mark.parametrize("transport", ["files", "files", "sst"])
def test_a_program_outlives_what_dies_around_it(
    tmp_path: Path, moments: random.Random, transport: str
) -> None:
    strikes = strikes_of(moments)
    print(", ".join(map(str, strikes)))
    Chaos(tmp_path, transport, strikes).check()
