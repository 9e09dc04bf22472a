"""The process of one stream: its names file, and a whole stream through it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from chimbuko.ad.detectors import make_detector
from chimbuko.ad.handoff.exchange import Cell, ExchangeBox, Phase
from chimbuko.ad.handoff.namesfile import NamesFile, read_names
from chimbuko.ad.handoff.notifiers import AgentNotifier
from chimbuko.ad.handoff.spool import SpoolReader
from chimbuko.ad.streams.process import StreamProcess
from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.calls.pathtable import PATH_TIME
from chimbuko.core.calls.recordarrays import unpack
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import BUCKETED_PROFILE
from chimbuko.core.traceschema import StreamNames
from chimbuko.runtime.protocol.messages import ALL_EPOCHS, RecordBatch
from tests.ad.followed import spec_of


def some_names() -> StreamNames:
    return StreamNames(
        timers={0: "main", 3: "größe [{a.c} {1,0}]"},
        counters={0: "TIME"},
        event_types={0: "ENTRY"},
        program="heat",
        metadata={(1, 0, "Hostname"): "node1"},
    )


def test_names_survive_a_process(tmp_path: Path) -> None:
    names = some_names()
    assert NamesFile(tmp_path / "names").save(names)
    assert read_names(tmp_path / "names") == names
    loaded = StreamNames(timers={9: "new"})
    NamesFile(tmp_path / "names").load_into(loaded)
    assert loaded.timers == {0: "main", 3: "größe [{a.c} {1,0}]", 9: "new"}
    assert (loaded.metadata, loaded.program) == (names.metadata, "heat")


def test_names_are_written_only_when_there_are_new_ones(tmp_path: Path) -> None:
    file, names = NamesFile(tmp_path / "names"), some_names()
    assert file.save(names) and not file.save(names)
    names.timers[4] = "late"
    assert file.save(names) and read_names(tmp_path / "names").timers[4] == "late"
    assert os.listdir(tmp_path) == ["names"]


def test_without_a_file_there_is_nothing_to_load(tmp_path: Path) -> None:
    names = StreamNames()
    NamesFile(tmp_path / "names").load_into(names)
    assert names == StreamNames()


def test_a_recorded_stream_ends_with_everything_handed_over(
    tmp_path: Path, real_traces: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = real_traces / "heat4" / "tau-metrics-heat2d-2.bp"
    spec = spec_of(tmp_path, stream, AnalysisConfig(), Transport.RECORDED, rank=2)
    agent = ExchangeBox(tmp_path / "box", make_detector(spec.config).schema, spec.program, spec.rank)
    StreamProcess(spec, AgentNotifier()).run()
    frames = SpoolReader(tmp_path / "spool").read(1 << 62)
    batches = [msgspec.msgpack.decode(frame, type=RecordBatch) for _, frame in frames]
    health = batches[-1].health
    assert (health.state, agent[Cell.PHASE], agent[Cell.CLOSED_EPOCH]) == ("ended", Phase.ENDED, ALL_EPOCHS)
    assert [step.step for batch in batches for step in batch.steps] == list(range(health.steps))
    assert sum(step.calls for batch in batches for step in batch.steps) == health.calls
    taken = agent.take()
    assert taken is not None
    timers = read_names(tmp_path / "names").timers
    assert set(taken.learned.timers.tolist()) <= set(timers)
    assert taken.steps == [step for batch in batches for step in batch.steps]
    # All calls but the first of each function on each thread were learned.
    learned = int(taken.learned.table[:, 0].sum())
    assert health.calls - len(timers) - 50 < learned < health.calls
    finals = [
        record.id
        for batch in batches
        for record in unpack(batch.records, batch.health, "robust")
        if record.is_final
    ]
    assert len(finals) == len(set(finals)) > 0
    counters = {one.name: one.n for one in batches[-1].counter_statistics}
    assert counters["heat residual x1e6"] > 0
    *others, last = batches
    assert last.paths is not None and all(batch.paths is None for batch in others)
    assert np.frombuffer(last.paths.rows, PATH_TIME)["calls"].sum() == taken.paths["begun"].sum()
    assert any(item.key == "Hostname" for batch in batches for item in batch.metadata)
    assert capfd.readouterr() == ("", "")


def test_a_stream_that_is_missing_is_broken_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(tmp_path, tmp_path / "none.bp", AnalysisConfig(), Transport.RECORDED)
    box = ExchangeBox(tmp_path / "box", BUCKETED_PROFILE)
    StreamProcess(spec, AgentNotifier()).run()
    assert box[Cell.PHASE] == Phase.BROKEN
    assert "no such trace stream" in capfd.readouterr().err
    (frame,) = SpoolReader(tmp_path / "spool").read(1 << 62)
    assert msgspec.msgpack.decode(frame[1], type=RecordBatch).health.state == "broken"
