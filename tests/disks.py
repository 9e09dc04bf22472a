"""File systems of their own, for tests of full disks and of those that cannot be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def own_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of a size, such as ``1m``; where that is not allowed, the test is skipped."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can only be made by root, where mounting is allowed")
    yield folder
    # Whoever still has a file open there keeps it until then.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
