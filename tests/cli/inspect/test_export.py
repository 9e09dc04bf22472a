from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from chimbuko.cli import main
from tests.viz.made_run import make_run


def test_a_run_is_exported_by_its_folder(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    arguments = ["export", str(made.directory.path), "--format", "v2", "-o", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    assert written["anomalies"] == len(made.anomalies)
    assert written["normal_calls"] == len(made.records) - len(made.anomalies)
    found = [
        record
        for path in tmp_path.glob("out/0/*/*.anomalies.json")
        for record in json.loads(path.read_text())
    ]
    assert {f"0:{record['event_id']}" for record in found} == {record.id for record in made.anomalies}
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 2
    assert "holds files already" in again.stderr


def test_calls_are_chosen_as_for_a_query(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    chosen = [record for record in made.anomalies if record.rank == 1 and record.function == "MPI_Waitall()"]
    out = tmp_path / "calls.json"
    options = ["--rank", "1", "--function", "MPI_Wait*", "--label", "anomaly"]
    result = CliRunner().invoke(
        main, ["export", str(made.directory.path), "--format", "chrome", "-o", str(out), *options]
    )
    assert result.exit_code == 0, result.output
    assert (result.stdout, result.stderr) == (
        "",
        f"{len(chosen):,} abnormal and 0 normal calls: {out}\n",
    )
    recorded = {
        event["args"]["id"]
        for event in json.loads(out.read_text())["traceEvents"]
        if event["ph"] == "X" and event["cat"] == "anomaly"
    }
    assert recorded >= {record.id for record in chosen}
    again = CliRunner().invoke(
        main, ["export", str(made.directory.path), "--format", "chrome", "-o", str(out)]
    )
    assert (again.exit_code, again.stderr) == (
        2,
        f"chimbuko: {out}: exists already; choose another name, or remove it\n",
    )
