"""The example notebook, run as who opens it would."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from tests.patience import PATIENCE_S
from tests.places import EXAMPLES
from tests.viz.made_run import RANKS, MadeRun, make_run

NOTEBOOK = EXAMPLES / "provenance.ipynb"
TELL = """
import json
print(json.dumps({
    "anomalies": len(anomalies),
    "worst": worst,
    "window": list(window.index),
    "functions": list(functions["function"]),
    "lost_us": float(by_node["sum"].sum()),
    "ranks": [int(rank) for rank in slowest_ranks["rank"]],
    "lost_ms": float(slowest_ranks["lost_ms"].sum()),
    "changes": [str(verdict) for verdict in changes["verdict"]],
}))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    return make_run(tmp_path_factory.mktemp("notebook") / "after")


@pytest.fixture(scope="module")
def executed(made: MadeRun) -> NotebookNode:
    """The notebook about that run and an earlier one, with a last cell that tells what it found."""
    before = make_run(made.directory.path.with_name("before"), stored_steps=40)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    [parameters] = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    parameters.source = f"RUN = {str(made.directory.path)!r}\nBEFORE = {str(before.directory.path)!r}"
    notebook.cells.append(nbformat.v4.new_code_cell(TELL))
    NotebookClient(notebook, timeout=PATIENCE_S, kernel_name="python3").execute(cwd=str(made.directory.path))
    return notebook


def test_what_it_finds_is_what_the_store_holds(executed: NotebookNode, made: MadeRun) -> None:
    found = json.loads(executed.cells[-1].outputs[-1].text)
    with open_run(made.directory) as provenance:
        calls = provenance.calls.page(CallFilter(), limit=10_000).calls
        worst = provenance.calls.record(calls[0].id)
        functions = provenance.function_statistics()
    lost_us = {rank: sum(call.severity_us for call in calls if call.rank == rank) for rank in range(RANKS)}
    assert found["anomalies"] == len(calls) == len(made.anomalies)
    assert found["worst"] == worst.id
    assert found["window"] == [call.id for call in worst.window]
    assert found["functions"] == [f.name for f in sorted(functions, key=lambda f: -f.severity_us)]
    assert found["lost_us"] == pytest.approx(sum(lost_us.values()))
    assert found["ranks"] == sorted((r for r in lost_us if lost_us[r]), key=lambda rank: -lost_us[rank])
    assert found["lost_ms"] == pytest.approx(sum(lost_us.values()) / 1e3)
    assert len(found["changes"]) == len(functions)


def test_it_draws_and_warns_of_nothing(executed: NotebookNode) -> None:
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
