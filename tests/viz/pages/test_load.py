"""The benchmarks of the dashboard in small. Counts and results decide, never times."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.dashboard import crowd, delay, paint, stream, timeline
from benchmarks.dashboard.figures import Figure
from benchmarks.dashboard.history import MadeHistory
from benchmarks.dashboard.serving import Dashboard
from benchmarks.dashboard.truth import Shown, Truth

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.usefixtures("page_files")

FEW_RANKS = 0.005
"""50 of them."""


def named(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.what: figure for figure in figures}


@pytest.mark.thorough
def test_every_page_of_a_crowd_ends_with_what_is_stored(browser: Browser) -> None:
    outcome = crowd.watch(browser, FEW_RANKS, pages=8, seconds=6.0, alone_s=0.5)
    assert outcome.reported["ticks"] > 4
    assert outcome.wrong == {}


def test_a_page_that_shows_something_else_is_found_out(tmp_path: Path) -> None:
    run = MadeHistory(ranks=20, steps=100, anomalies=40).make(tmp_path / "made")
    truth = Truth(run)
    try:
        shown = as_it_should_be(truth)
        assert truth.differences(shown) == []
        cells = bytearray(base64.b64decode(shown["grid"]["cells"]))
        cells[7] += 1
        steps = [[*step] for step in shown["series"][0]["rows"]]
        steps[-1][4] += 1
        for part, wrong in {
            "status": shown["status"] | {"anomalies": shown["status"]["anomalies"] + 1},
            "ranking": shown["ranking"] | {"top": shown["ranking"]["top"][1:]},
            "functions": shown["functions"] | {"top": shown["functions"]["top"][::-1]},
            "series": [shown["series"][0] | {"rows": steps}],
            "grid": shown["grid"] | {"cells": base64.b64encode(cells).decode()},
        }.items():
            assert truth.differences(shown | {part: wrong}) == [part]
    finally:
        truth.close()


def as_it_should_be(truth: Truth) -> Shown:
    """What a page of the whole run would show."""
    ranks, steps = truth.anomalies.shape
    means = truth.anomalies.mean(axis=1)
    axes = {"ranks_per_row": 1, "steps_per_column": 2, "rows": ranks, "columns": steps // 2}
    cells = truth.cells(axes).astype(np.uint8).tobytes()
    functions = sorted(truth.functions.items(), key=lambda item: item[1], reverse=True)
    return {
        "status": {
            "state": "ended",
            "anomalies": int(truth.anomalies.sum()),
            "ranks": ranks,
            "last_step": steps - 1,
        },
        "ranking": {
            "by": "mean",
            "ranks": ranks,
            "top": [{"rank": int(rank), "value": means[rank]} for rank in np.argsort(-means)[:3]],
        },
        "functions": {
            "top": [
                {"name": name, "severity_us": severity_us, "anomalies": anomalies}
                for name, (severity_us, anomalies) in functions
            ]
        },
        "series": [{"rank": "0:4", "rows": truth.steps(4)}],
        "grid": axes | {"cells": base64.b64encode(cells).decode()},
    }


@pytest.mark.thorough
def test_a_first_picture_keeps_within_its_bytes_and_nodes(browser: Browser, tmp_path: Path) -> None:
    made = MadeHistory(ranks=200, steps=1_000, anomalies=2_000).make(tmp_path / "made")
    with Dashboard(made) as dashboard:
        opened = paint.opened(browser, dashboard.url)
    assert 0 < opened.asset_bytes <= paint.ASSET_BYTES
    assert 0 < sum(opened.answers.values()) <= paint.DATA_BYTES
    assert 0 < opened.nodes <= paint.NODES
    assert {"grid", "ranks"} <= opened.answers.keys()


@pytest.mark.thorough
def test_the_heap_does_not_grow_with_each_frame(browser: Browser) -> None:
    figures = named(stream.measure_memory(browser, FEW_RANKS, minutes=5, minute_s=3.0))
    frames = figures["frames"].median
    assert frames > 8
    # Lists of calls and steps grow in a young page; what is left of each picture would be 70 kB a frame.
    assert figures["... growth from minute 2 on"].median < stream.HEAP_BYTES


@pytest.mark.thorough
def test_every_abnormal_call_that_is_found_comes_to_the_page(browser: Browser) -> None:
    figures = named(delay.measure(browser, seconds=16.0))
    # Where the machine stops programs for long, calls that take long are nothing special.
    assert 1 <= figures["... that were found"].median <= figures["abnormal calls that were made"].median
    assert figures["... that came to the page"].median == figures["... that were found"].median


@pytest.mark.thorough
def test_a_recorded_trace_is_opened_and_moved(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MOVING_S", 2.0)
    figures = named(timeline.measure(browser, part=0.02, rounds=1))
    # Most of its rows are entries and exits of calls.
    assert figures["calls of the trace"].median > 15_000
    assert 0 < figures["... bytes"].median <= timeline.BYTES
