"""The worked example of docs/internals/detectors.md is a detector."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import numpy as np
import pytest

from chimbuko.ad import detectors
from chimbuko.ad.detectors import make_detector
from chimbuko.core.config import DETECTORS, AnalysisConfig, DetectorEntry
from chimbuko.core.statistics.schema import PROFILE
from tests.places import ROOT

TEXT = (ROOT / "docs" / "internals" / "detectors.md").read_text()
MODULE, ENTRY = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_example_flags_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(f"{detectors.__name__}.ratio")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(MODULE, module.__dict__)
    monkeypatch.setitem(DETECTORS, "ratio", DETECTORS["robust"])
    exec(ENTRY, {"DETECTORS": DETECTORS, "DetectorEntry": DetectorEntry})
    detector = make_detector(AnalysisConfig(detector="ratio"))
    table = PROFILE.empty(2)
    table[0, PROFILE.slices["exclusive_us"]][:3] = 100, 10.0, 0.0
    limits = detector.limits(table, np.full(2, DETECTORS["ratio"].default_threshold))
    runtimes_us = np.array([29.0, 31.0])
    below = (limits.edges_us[0] <= runtimes_us[:, None]).sum(axis=1)
    assert (below % 2 == 1).tolist() == [True, False]
    assert limits.edges_us[1, 1] == np.inf
    judged = detector.judge(limits.measures[[0, 0]], runtimes_us)
    assert judged.score.tolist() == [2.9, 3.1]
    assert judged.expected_us.tolist() == [10.0, 10.0]
