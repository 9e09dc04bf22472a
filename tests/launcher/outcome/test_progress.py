"""The live line, and the lines where there is no terminal."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chimbuko.core.calls.record import SILENT, Silence, StreamHealth
from chimbuko.launcher.outcome import progress
from chimbuko.launcher.outcome.progress import MOST_NAMED, Progress, elapsed_text, progress_line
from chimbuko.launcher.services.services import FrameHealth
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.messages import PAYLOAD, Frame
from chimbuko.runtime.protocol.runbroker import RunBroker

READING = StreamHealth(0, 0, "node7", "reading", 4, 100, 4800, 1_048, 2, 1, {})


def silent(rank: int, function: str) -> StreamHealth:
    return msgspec.structs.replace(READING, rank=rank, state=SILENT, silence=Silence(1, function, 1))


def test_line_gives_totals() -> None:
    assert progress_line([READING, READING]) == "2 ranks · 8 steps · 2,096 calls · ▲ 4 anomalies"


def test_silent_ranks_are_named_with_what_they_are_in() -> None:
    line = progress_line([READING, silent(1, "MPI_Recv() [{a.c} {1,0}]"), silent(2, "")])
    assert line.endswith(" · 2 silent: 0:1 in MPI_Recv(), 0:2")
    many = progress_line([silent(rank, "f") for rank in range(1000)])
    assert " · 1000 silent: " in many
    assert many.count(" in f") == MOST_NAMED


def test_time_is_shown_as_clocks_do() -> None:
    assert [elapsed_text(s) for s in (0.9, 42.0, 725.2, 3723.0)] == ["0:00", "0:42", "12:05", "1:02:03"]


def test_without_a_terminal_lines_come_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now_s[0])
    with PrivateBroker(tmp_path / "broker.log") as private:
        broker = RunBroker.connect(private.url, "run")
        with Progress(FrameHealth(broker)) as shown:
            for second in range(601):
                now_s[0] = 1000.0 + second
                if second == 10:
                    frame = Frame(1, [], [], [], [READING], False)
                    broker.client.xadd(broker.keys.frames, {PAYLOAD: broker.seal.encode(frame)})
                shown.show()
    lines = capfd.readouterr().err.splitlines()
    totals = "1 rank · 4 steps · 1,048 calls · ▲ 2 anomalies"
    assert lines == [f"chimbuko: {at} · {totals}" for at in ("1:00", "2:00", "4:00", "8:00")]
