"""The memory map of a process, as text."""

from __future__ import annotations

from pathlib import Path

from chimbuko.capture.symbols.maps import Mapping, mapping_at, parse_maps

TEXT = """\
5581f0a6e000-5581f0a6f000 r--p 00000000 fe:00 1311                       /opt/a b/app
5581f0a6f000-5581f0a70000 r-xp 00001000 fe:00 1311                       /opt/a b/app
5581f0a73000-5581f0a94000 rw-p 00000000 00:00 0                          [heap]
7f1c00000000-7f1c00021000 rw-p 00000000 00:00 0
7f1c0a000000-7f1c0a001000 r-xp 00002000 fe:00 99                         /tmp/libx.so (deleted)
damage
"""


def test_files_are_found_with_their_offsets() -> None:
    found = parse_maps(TEXT)
    assert found[1:] == [
        Mapping(0x5581F0A6F000, 0x5581F0A70000, 0x1000, "/opt/a b/app", False),
        Mapping(0x7F1C0A000000, 0x7F1C0A001000, 0x2000, "/tmp/libx.so", True),
    ]
    mapping = mapping_at(found, 0x5581F0A6F123)
    assert mapping is found[1] and mapping.file_offset(0x5581F0A6F123) == 0x1123
    assert mapping_at(found, 0x5581F0A70000) is None


def test_own_map_can_be_read() -> None:
    found = parse_maps(Path("/proc/self/maps").read_text())
    assert any("libc" in mapping.path for mapping in found)
