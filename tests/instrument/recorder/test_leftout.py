"""What is said of functions that are not recorded any more."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chimbuko.instrument.recorder.layout import NAMED, PROCESS, PROCESS_MAGIC, VERSION
from chimbuko.instrument.recorder.recording import describe_left_out
from chimbuko.instrument.recorder.ring import ProcessFile

NAMES = {1: "tick", 2: "std::vector<int, std::allocator<int> >::size() const", NAMED: "MPI_Test()"}


def described(folder: Path, *keys: int) -> str:
    head = np.zeros(1, PROCESS)
    head["magic"], head["version"] = PROCESS_MAGIC, VERSION
    head["left_out"][0, : len(keys)] = keys
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
