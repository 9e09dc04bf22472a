"""``chimbuko merge``: what it says and leaves."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from chimbuko.cli import main
from tests.places import DATA


def merge(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["merge", *map(str, words)])


def test_traces_of_a_training_become_one(tmp_path: Path) -> None:
    done = merge(DATA / "kineto" / "rank*.json.gz", "--to", tmp_path / "all.json")
    assert done.exit_code == 0, done.output
    assert done.stdout == "merged 4 ranks, 12,768 rows\n"
    events = json.loads((tmp_path / "all.json").read_bytes())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == {f"rank0_pt_trace rank {rank}" for rank in range(4)}
    assert list(tmp_path.iterdir()) == [tmp_path / "all.json"], "nothing else is left"


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for words, code, complaint in (
        ((tmp_path / "none*",), 3, "no trace stream matches"),
        ((broken,), 3, "there are no calls in it"),
    ):
        done = merge(*words, "--to", tmp_path / "all.json")
        assert done.exit_code == code
        (line,) = done.stderr.splitlines()
        assert complaint in line
    assert list(tmp_path.iterdir()) == [broken]
