"""What stands before each message of a run."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from chimbuko.core.calls.recordarrays import HEAD
from chimbuko.core.statistics.schema import PROFILE, Column, Rule, TableSchema
from chimbuko.runtime.protocol import messages
from chimbuko.runtime.protocol.messages import ForeignMessage, FunctionName, Seal

NAMES = msgspec.msgpack.Decoder(FunctionName)
SOLVE = FunctionName(3, 0, "solve")


def test_a_message_of_the_run_comes_as_it_was() -> None:
    seal = Seal("heat-1")
    assert seal.decode(seal.encode(SOLVE), NAMES) == SOLVE
    assert seal.decode(seal.enclose(msgspec.msgpack.encode(SOLVE)), NAMES) == SOLVE


@pytest.mark.parametrize("run", ["heat-2", "heat-", "heat-11", ""])
def test_a_message_of_another_run_is_refused(run: str) -> None:
    with pytest.raises(ForeignMessage, match=f"^it is of the run {run}$"):
        Seal("heat-1").decode(Seal(run).encode(SOLVE), NAMES)


def test_a_message_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal("heat-1")
    monkeypatch.setattr(messages, "VERSION", messages.VERSION + 1)
    newer = Seal("heat-1").encode(SOLVE)
    monkeypatch.undo()
    with pytest.raises(ForeignMessage, match=f"of version {messages.VERSION + 1}-.* of the messages, not"):
        seal.decode(newer, NAMES)


def test_rows_of_another_layout_are_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal("heat-1")
    longer = np.dtype([*((name, HEAD[name]) for name in HEAD.names or ()), ("more", np.int64)], align=True)
    monkeypatch.setattr(messages, "_LAYOUTS", (longer, *messages._LAYOUTS[1:]))
    theirs = Seal("heat-1").encode(SOLVE)
    monkeypatch.undo()
    with pytest.raises(ForeignMessage, match=f"of version {messages.VERSION}-.*, not {messages.VERSION}-"):
        seal.decode(theirs, NAMES)


def test_a_further_column_of_the_statistics_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Seal("heat-1")
    more = TableSchema((Column("fewest", Rule.MIN), *PROFILE.columns))
    monkeypatch.setattr(messages, "_TABLES", (more, *messages._TABLES[1:]))
    theirs = Seal("heat-1").encode(SOLVE)
    monkeypatch.undo()
    with pytest.raises(ForeignMessage, match=f"of version {messages.VERSION}-.*, not {messages.VERSION}-"):
        seal.decode(theirs, NAMES)


@pytest.mark.parametrize("payload", [b"", b"\x01", b"nonsense"])
def test_what_is_no_message_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        Seal("heat-1").decode(payload, NAMES)


def test_of_many_those_that_are_understood_are_given(capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = Seal("heat-1"), Seal("heat-2")
    damaged = ours.enclose(b"\xc1")
    entries = [(b"1-0", ours.encode(SOLVE)), (b"2-0", theirs.encode(SOLVE)), (b"3-0", damaged)]
    assert list(ours.decoded(entries, NAMES)) == [SOLVE]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2 and "message 2-0 is left out: it is of the run heat-2" in said[0]
