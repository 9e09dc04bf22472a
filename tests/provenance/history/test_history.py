"""The history of a series: what changed, when, and how sure that is."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chimbuko.provenance.history.entry import Details, Entry, Version
from chimbuko.provenance.history.history import SeriesHistory, make_history, slow_nodes
from chimbuko.provenance.history.index import RunRow
from tests.provenance.history.made import entry, year


def history(entries: list[Entry]) -> SeriesHistory:
    rows = [
        RunRow(one.id, one.name, one.folder, one.started_us, one.is_good, one.quantities, one.version)
        for one in entries
    ]
    details = {one.id: one.details for one in entries}
    return make_history("heat2d", "4 ranks", rows, lambda ids: {run: details[run] for run in ids})


def test_a_change_is_told_with_what_explains_it() -> None:
    found = history(year())
    (change,) = found.changes
    assert (change.at, change.run, change.before, change.is_slower) == (30, "run-30", "run-29", True)
    assert [one.name for one in change.quantities] == ["wall", "function solve", "part computing_us"]
    assert change.quantities[0].effect == pytest.approx(0.225, abs=0.03)
    assert change.version == ["commit aaaaaaaaaa → bbbbbbbbbb"]
    assert change.sentence.startswith("Since run-30 (2026-01-31): wall time +2")
    assert "solve +3" in change.sentence
    assert change.sentence.endswith(
        "; commit aaaaaaaaaa → bbbbbbbbbb; by chance less than once in a million."
    )
    assert found.runs[30].version == change.version


def test_a_change_that_is_gone_again_is_said_to_be() -> None:
    whole = year(60)
    restored = [
        msgspec.structs.replace(one, quantities=year(60, slower_from=60)[at].quantities) if at >= 45 else one
        for at, one in enumerate(whole)
    ]
    first, second = history(restored).changes
    assert (first.at, first.reverted_at, second.at, second.is_slower) == (30, 45, 45, False)
    assert first.sentence.endswith("as before again since run-45 (2026-02-15).")


def test_runs_that_are_not_good_say_nothing() -> None:
    whole = [msgspec.structs.replace(one, is_good=at < 30) for at, one in enumerate(year())]
    found = history(whole)
    assert (found.changes, len(found.runs)) == ([], 40)


def paces(run: int, slow: dict[str, float]) -> Details:
    random = np.random.default_rng(run)
    nodes = {
        f"n{number:02}": float(slow.get(f"n{number:02}", 1.0) * (1 + 0.01 * random.normal()))
        for number in range(16)
    }
    return Details(paces={"solve": nodes}, troubles={"n03": {"clock": 2}} if run % 2 else {})


def test_nodes_that_became_slower_are_named() -> None:
    slow = {"n03": 1.1, "n04": 1.1}
    entries = []
    for number, one in enumerate(year()):
        details = paces(number, slow if number >= 30 else {})
        worst = max(details.paces["solve"].values())
        entries.append(
            msgspec.structs.replace(one, details=details, quantities=one.quantities | {"nodes": worst})
        )
    (change,) = history(entries).changes
    assert set(change.nodes) == {"n03", "n04"}
    assert "; on nodes n0" in change.sentence


def test_a_node_that_is_slow_again_and_again_is_named_once() -> None:
    runs = [paces(number, {"n03": 1.07}) for number in range(11)]
    (found,) = slow_nodes(runs)
    assert (found.node, found.function, found.runs) == ("n03", "solve", 11)
    assert found.share == pytest.approx(0.07, abs=0.02)
    assert found.sentence.startswith("Node n03: in 11 of 11 runs slower than its neighbours, by ")
    assert found.sentence.endswith("in solve; clock in 5 of them.")


@pytest.mark.parametrize("seed", range(10))
def test_nodes_that_are_alike_are_not_named(seed: int) -> None:
    assert slow_nodes([paces(100 * seed + number, {}) for number in range(11)]) == []


def test_versions_that_are_not_known_are_no_change() -> None:
    now = Version(commit="c" * 40, build="", modules="gcc/12:mpich/4")
    assert now.changes_from(Version(build="f" * 16, modules="gcc/11:mpich/4")) == ["modules −gcc/11 +gcc/12"]


def test_a_series_of_one_run_has_no_changes() -> None:
    found = history([entry(1)])
    assert (found.changes, found.nodes, [one.name for one in found.runs]) == ([], [], ["run-1"])
