"""Real traces, unpacked once."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def real_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with all recorded traces of tests/data."""
    folder = tmp_path_factory.mktemp("traces")
    for archive in sorted(DATA.glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return folder
