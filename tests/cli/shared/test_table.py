from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from chimbuko.cli.shared.table import Column, Output, aligned

COLUMNS = [Column("ID"), Column("N", is_number=True), Column("FUNCTION", may_shrink=True)]
ROWS = [["a", "1", "short"], ["bbb", "22", "void very::long<name>(double *, int)"]]


def test_columns_are_aligned_and_whole_without_a_width() -> None:
    assert aligned(COLUMNS, ROWS, None) == [
        "ID    N  FUNCTION",
        "a     1  short",
        "bbb  22  void very::long<name>(double *, int)",
    ]


def test_only_columns_that_may_shrink_are_cut_to_the_width() -> None:
    assert aligned(COLUMNS, ROWS, 30)[-1] == "bbb  22  void very::long<name…"
    assert aligned(COLUMNS, ROWS, 5)[-1] == "bbb  22  void very::long…"


def test_wide_characters_count_twice() -> None:
    lines = aligned([Column("A"), Column("B")], [["日本", "x"], ["abcd", "y"]], None)
    assert [cell_len(line) for line in lines[1:]] == [7, 7]


def test_no_rows_leave_the_titles() -> None:
    assert aligned(COLUMNS, [], 80) == ["ID  N  FUNCTION"]


def test_abnormal_rows_are_coloured_on_a_terminal_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown() -> str:
        terminal = io.StringIO()
        monkeypatch.setattr("sys.stdout", terminal)
        Output().table([Column("ID")], [["▲ bad"], ["good"]])
        return terminal.getvalue()

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert shown() == "ID\n▲ bad\ngood\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown() == "\x1b[1mID\x1b[0m\n\x1b[31m▲ bad\x1b[0m\ngood\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in shown()
