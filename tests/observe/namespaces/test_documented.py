"""The program in docs/howto/namespaces.md publishes what it says, and the other one reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE
from chimbuko.observe.namespaces.exchange.tree import Change
from tests.observe.namespaces.served import served
from tests.places import ROOT

TEXT = (ROOT / "docs" / "howto" / "namespaces.md").read_text()
PUBLISHING, READING, ANALYSING = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_documented_programs_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PLACE_VARIABLE, str(tmp_path / "observations"))
    masses = iter(np.linspace(1.0, 2.0, 100))
    published: dict[str, Any] = {"advance": lambda: (next(masses), np.array([0.5, 0.25]))}
    with served(tmp_path / "observations"):
        exec(PUBLISHING.replace("10_000", "100"), published)
        assert published["client"].delivered == 2
        read: dict[str, Any] = {}
        # The last two lines wait for what comes.
        exec(READING.partition("    for observation")[0], read)
    assert read["state"] == {"Rank 3": {"local_mass": 2.0, "density": {"min": 0.25}}}
    assert [observation.commits for observation in read["past"]] == [50, 50]
    own: dict[str, Any] = {}
    exec(ANALYSING, own)
    change = Change({("Rank 0", "step"): 7, ("Rank 1", "step"): 5}, {})
    one = msgspec.structs.replace(read["past"][0], change=change)
    assert own["slowest_rank"]([one]) == {"rank": "Rank 1", "behind": 2}
