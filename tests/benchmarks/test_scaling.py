"""Unit costs of the pipeline, and the page that is made of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.report import DOCS, replaced
from benchmarks.scaling.__main__ import SECTIONS, comparisons
from benchmarks.scaling.fitting import fitted
from benchmarks.scaling.loads import READ, SERVED, Measured, averaged
from chimbuko.plan.loads import READERS, SERVICES, Pipeline, loads, measured
from chimbuko.plan.simulation import simulate
from tests.plan.costs import COSTS


def as_simulated(is_held_out: bool, ranks: int, per_node: int, findings: float, period_s: float) -> Measured:
    """What would be measured of services that take what ``COSTS`` says."""
    run = Pipeline(ranks, per_node, period_s, 1.0, findings, service_cores=1.0)
    found = simulate(run, COSTS)
    return Measured(
        is_held_out,
        ranks,
        per_node,
        period_s,
        1.0,
        findings,
        {part: found.part(part).load.cores for part in SERVICES},
        {part: found.part(part).memory_bytes for part in SERVICES},
        {"model": found.model_lag_s, "store": found.store_lag_s},
        0,
        {
            "wire": found.wire_bytes_per_s,
            "frames": found.frame_bytes_per_s,
            "store": max(found.store_bytes_per_s, 1.0),
        },
    )


def as_read(is_held_out: bool, ranks: int, rows_per_s: float) -> Measured:
    """The same of agent and readers."""
    run = Pipeline(ranks, ranks, 1.0, rows_per_s, 0.0, service_cores=1.0)
    found = simulate(run, COSTS).part(READERS)
    cores, memory = {READERS: found.load.cores}, {READERS: found.memory_bytes}
    return Measured(is_held_out, ranks, ranks, 1.0, rows_per_s, 0.0, cores, memory, {}, 0, {})


def test_of_several_rounds_means_count_and_all_that_was_lost() -> None:
    first, other = as_read(False, 4, 5_000), as_read(False, 8, 5_000)
    again = replace(first, cores={READERS: 3 * first.cores[READERS]}, lost=2)
    mean, alone = averaged([first, other, again])
    assert mean == replace(first, cores={READERS: 2 * first.cores[READERS]}, lost=2)
    assert alone == other


def test_what_follows_from_some_loads_predicts_the_others() -> None:
    made = []
    for role in SERVED:
        is_held_out = role == "held out"
        for nodes, per_node, *rates in SERVED[role]:
            made.append(as_simulated(is_held_out, nodes * per_node, per_node, *rates))
        made += [as_read(is_held_out, *streams) for streams in READ[role]]
    costs = fitted(made)
    held_out = comparisons([one for one in made if one.is_held_out], costs)
    assert len({(one.ranks, what) for one, what, _, _ in held_out}) > 20
    for one, what, was, says in held_out:
        assert says == pytest.approx(was, rel=0.2 if "lag" in what else 0.02), (one.ranks, what)
    # Those that are held out do not count.
    changed = [replace(one, cores=dict.fromkeys(one.cores, 9.0)) if one.is_held_out else one for one in made]
    assert fitted(changed) == costs


def test_the_costs_of_the_package_are_about_those_of_a_service_node_as_documented() -> None:
    text = (DOCS / "howto" / "many-nodes.md").read_text().partition("<!-- service-node: measured -->")[2]
    rows = re.findall(r"\| +(\w+) \| +([\d.]+) \| +\d+ \|", text)[: len(SERVICES)]
    documented = {name: float(cores) for name, cores in rows}
    found = {one.part: one.cores for one in loads(Pipeline(10_000), measured())}
    assert set(documented) == set(SERVICES)
    for part, cores in documented.items():
        assert found[part] == pytest.approx(cores, rel=0.5, abs=0.02), part


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_is_what_the_command_prints(section: str) -> None:
    document = (DOCS / "internals" / "scaling.md").read_text()
    assert replaced(document, section, SECTIONS[section]()) == document
