"""A trace as text: an event a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from chimbuko.cli import main

CALLS = (
    '[{"ph":"X","name":"solve","ts":1000,"dur":50,"pid":1,"tid":1},'
    '{"ph":"X","name":"inner\\u001b","ts":1010,"dur":5,"pid":1,"tid":1}]'
)


@pytest.mark.parametrize("target", ["-", "events.txt"])
def test_a_trace_is_printed_event_by_event(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.json").write_text(CALLS)
    done = CliRunner().invoke(main, ["merge", "trace.json", "--to", target])
    assert done.exit_code == 0, done.stderr
    text = done.stdout if target == "-" else Path(target).read_text()
    head, rank, *lines = text.splitlines()
    assert head.split() == ["RANK", "THREAD", "TIME_US", "EVENT", "WHAT"] and rank.startswith("# rank 0: ")
    events = [line.split(maxsplit=4) for line in lines]
    assert [(event, what.split()[0]) for *_, event, what in events if "inner" in what or "solve" in what] == [
        ("enter", "solve"),
        ("enter", "inner\\x1b"),
        ("leave", "inner\\x1b"),
        ("leave", "solve"),
    ]
    assert "merged 1 rank" in (done.stderr if target == "-" else done.stdout)
