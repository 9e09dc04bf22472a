"""What is said of functions that are not recorded any more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chimbuko.instrument.recorder.layout import NAMED, PROCESS, PROCESS_MAGIC, VERSION
from chimbuko.instrument.recorder.leftout import describe_left_out
from chimbuko.instrument.recorder.ring import ProcessFile

NAMES = {1: "tick", 2: "std::vector<int, std::allocator<int> >::size() const", NAMED: "MPI_Test()"}


def described(folder: Path, *keys: int, until_ns: int = 0) -> str:
    head = np.zeros(1, PROCESS)
    head["magic"], head["version"] = PROCESS_MAGIC, VERSION
    head["start_ns"], head["overhead"] = 1_000_000_000, 0.02
    rows = head["functions"][0]
    rows["key"][1 : 1 + len(keys)] = keys
    rows["uncounted_ns"][1 : 1 + len(keys)] = 1_250_000_000
    rows["counted_ns"][1] = until_ns
    rows["samples"][1] = until_ns and 3
    path = folder / "1-2.process"
    path.write_bytes(head.tobytes())
    return describe_left_out(ProcessFile(path), [], lambda asked: [NAMES[key] for key in asked])


def test_flags_are_such_as_the_compiler_takes(tmp_path: Path) -> None:
    functions = "-finstrument-functions-exclude-function-list=tick"
    files = "-finstrument-functions-exclude-file-list=/usr/include"
    assert described(tmp_path, 1).endswith(f"compile with {functions}")
    assert described(tmp_path, 2).endswith(f"compile with {files}")
    assert described(tmp_path, 1, 2).endswith(f"compile with {functions} {files}")
    # MPI is not compiled by its user.
    assert "compile" not in described(tmp_path, NAMED)
    assert described(tmp_path) == ""


def test_times_in_which_calls_are_not_even_counted_are_said(tmp_path: Path) -> None:
    assert "those not counted of tick from 0.25 s on; their time" in described(tmp_path, 1)
    until = described(tmp_path, 1, until_ns=4_000_000_000)
    assert "of tick from 0.25 s to 3.00 s, but for 3 samples; their time is in that of their callers" in until
    assert "the recorder's budget is 2.00%" in until
