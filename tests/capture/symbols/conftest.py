"""Every test has a cache of its own; programs are built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.symbols.programs import built


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "chimbuko" / "symbols"


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Position-independent, with debug information."""
    return built(tmp_path_factory.mktemp("app"), "-g", "-pie", "-rdynamic")
