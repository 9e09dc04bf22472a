"""What a build that was killed has left is removed by a later one."""

from __future__ import annotations

import os
import time
from pathlib import Path

from chimbuko.core.kernels.build import BUILDING, LONGEST_S, remove_left


def test_only_what_nobody_builds_in_any_more_is_removed(tmp_path: Path) -> None:
    names = [f"{BUILDING}left", f"{BUILDING}now", "numba"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernels.o").touch()
    long_ago_s = time.time() - 2 * LONGEST_S
    for name in (names[0], names[2]):
        os.utime(tmp_path / name, (long_ago_s, long_ago_s))
    remove_left(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])
