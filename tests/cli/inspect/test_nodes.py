"""``chimbuko nodes`` over a run with stored samples."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result

from chimbuko.cli import main
from chimbuko.core.config import AnalysisConfig
from chimbuko.monitor.sampling.nodebatch import NodeFinding, packed
from chimbuko.monitor.sampling.rows import CORE
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.runtime.runs.directory import RunDirectory, new_run
from tests.causes.flagged import at
from tests.causes.nodes import NODE_NAME, batch, other, thread

CROWDED = NodeFinding("oversubscribed", "2 threads share 1 core", "give each its own")


def made(folder: Path, with_samples: bool) -> RunDirectory:
    run = new_run(folder, ["./heat"], AnalysisConfig(), None)
    info = run.read_info()
    engine = open_for_writing(info.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write_statistics(RunStatistics({0: "heat4"}))
    if with_samples:
        cores = np.array([(at(0), 10_000_000, 0, 6_000_000, 0, 4_000_000, 0, 5_000_000)], CORE).tobytes()
        total = batch(
            [thread(0, 0, 10_000, ran_us=4_000_000, waited_us=5_000_000, system_us=1_000_000)],
            others=[other(0, 10_000, 0, 1_000)],
            is_sum=True,
            findings=[CROWDED],
            cores=cores,
        )
        # All has ended by 10 s, and the agent some time later.
        total = msgspec.structs.replace(total, threads=total.looks, looks=b"", end_us=at(15_000))
        stolen = [thread(0, 2_000, 3_000, ran_us=0, waited_us=1_000_000)]
        fine = batch([], periods=stolen, others=[other(2_000, 3_000, 0, 900, name="thief")])
        writer.write_samples(map(packed, [total, fine]))
    engine.dispose()
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run with the samples of one node."""
    return made(tmp_path / "heat", with_samples=True)


def nodes(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["nodes", *map(str, arguments)])
    assert (result.exit_code == 0) is (code == 0), result.output
    return result


def test_nodes_are_listed_with_what_was_wrong(run: RunDirectory) -> None:
    titles, line = nodes(run.path).stdout.splitlines()
    assert titles.split()[:4] == ["NODE", "FROM", "TO", "RANKS"]
    assert line.startswith(NODE_NAME) and line.endswith("▲ oversubscribed")
    assert " 60 %" in line and " 50 %" in line
    (listed,) = json.loads(nodes(run.path, "--json").stdout)["nodes"]
    assert (listed["name"], listed["own_us"]) == (NODE_NAME, 5_000_000)


def test_one_node_says_what_it_did_in_some_time(run: RunDirectory) -> None:
    shown = nodes(run.path, "--node", NODE_NAME).stdout
    assert "▲ oversubscribed: 2 threads share 1 core" in shown and "give each its own" in shown
    (line,) = [one for one in shown.splitlines() if " app " in one]
    assert line.split()[-6:] == ["30", "%", "10", "%", "50", "%"]
    assert "spinner" in shown and "thief" not in shown
    begin_s = at(2_000) / 1e6
    then = nodes(run.path, "--node", NODE_NAME, "--time", f"{begin_s}s:{begin_s + 1}s", "--json")
    view = json.loads(then.stdout)
    assert (view["begin_us"], view["end_us"]) == (at(2_000), at(3_000))
    (of_rank,) = view["threads"]
    assert (of_rank["waited"], of_rank["user"]) == ([1.0], [0.0])
    assert [(one["name"], one["ran_us"]) for one in view["others"]] == [("thief", 900_000.0)]


def test_wrong_input_is_answered_in_one_line(run: RunDirectory, tmp_path: Path) -> None:
    elsewhere = nodes(run.path, "--node", "elsewhere", code=1)
    assert f"there are samples of {NODE_NAME}" in elsewhere.stderr
    assert "give --node" in nodes(run.path, "--time", "1s:2s", code=1).stderr
    assert "was not sampled then" in nodes(run.path, "--node", NODE_NAME, "--time", "0s:1ms", code=1).stderr
    after = nodes(run.path, "--node", NODE_NAME, "--time", f"{at(14_000) / 1e6}s:{at(15_000) / 1e6}s")
    assert "nothing is known of that time" in after.stdout
    bare = made(tmp_path / "bare", with_samples=False)
    assert "no node of this run was sampled" in nodes(bare.path).stderr
