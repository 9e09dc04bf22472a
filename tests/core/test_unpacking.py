"""What is unpacked is bounded, wherever that is done."""

from __future__ import annotations

import gzip
import re
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from chimbuko.core.errors import StoreError
from chimbuko.core.unpacking import unpacked
from tests.places import ROOT

BOUNDED = {"core/unpacking.py", "provenance/manage/archive.py"}
STREAMED = {"capture/formats/readers/registry.py"}
"""Modules that read bit by bit, so that the size does not matter."""


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress])
def test_what_was_packed_is_unpacked(pack: Callable[[bytes], bytes]) -> None:
    assert unpacked(pack(b"found" * 1000)) == b"found" * 1000
    assert unpacked(pack(b"")) == b""


def test_a_bomb_takes_no_memory() -> None:
    bomb = zlib.compress(bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(StoreError, match="larger than 1 MB"):
        unpacked(bomb, 1 << 20)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("damaged", [b"", b"no", zlib.compress(b"found" * 1000)[:-5]])
def test_what_is_damaged_is_said_to_be(damaged: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        unpacked(damaged)


def test_nothing_is_unpacked_without_a_bound() -> None:
    unbounded = re.compile(r"(?:gzip|zlib|lzma|bz2)\.(?:decompress|open|decompressobj)\(")
    found = {
        path.relative_to(ROOT).as_posix().removeprefix("chimbuko/")
        for top in ("chimbuko", "ad", "provenance", "pserver", "viz")
        for path in (ROOT / top).rglob("*.py")
        if unbounded.search(path.read_text())
    }
    assert found == BOUNDED | STREAMED
