"""The grid of all ranks and steps, over HTTP, against the steps that were made."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import numpy as np
import pytest

from chimbuko.core.calls.record import SILENT, Silence
from chimbuko.provenance.query.run import open_run
from chimbuko.provenance.store.coarserlevels import lost_code
from chimbuko.provenance.store.engine import open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import RunStatistics
from chimbuko.viz.live import gridreading
from chimbuko.viz.live.feed import Feed
from chimbuko.viz.live.grid import Grouping, Picture
from chimbuko.viz.live.gridreading import Piece
from tests.viz.api.conftest import Api
from tests.viz.made_run import LOST_STEPS, RANKS, STEP_US, STEPS, ZERO_US, MadeRun, make_run


def cells(body: dict[str, Any], layer: str = "cells") -> list[list[int]]:
    flat = np.frombuffer(base64.b64decode(body[layer]), np.uint8)
    found: list[list[int]] = flat.reshape(body["rows"], body["columns"]).tolist()
    return found


def lost(finished: MadeRun, rank: int) -> list[int]:
    """Codes of the times lost, by step; 255 where it was lost."""
    codes = {step.step: int(lost_code(step.severity_us)) for step in finished.steps_of(rank)}
    return [codes.get(step, 255) for step in range(STEPS)]


def counted(finished: MadeRun, rank: int) -> list[int]:
    """By step; 255 where it was lost."""
    anomalies = {step.step: step.anomalies for step in finished.steps_of(rank)}
    return [anomalies.get(step, 255) for step in range(STEPS)]


def test_it_is_what_each_rank_had_in_each_step(api: Api, finished: MadeRun) -> None:
    body = api.ask("grid").json
    assert cells(body) == [counted(finished, rank) for rank in range(RANKS)]
    assert cells(body, "lost") == [lost(finished, rank) for rank in range(RANKS)]
    assert cells(body)[2][LOST_STEPS[2][0]] == 255
    assert body["programs"] == [
        {
            "program": 0,
            "first_row": 0,
            "rows": RANKS,
            "first_place": 0,
            "ranks": [[0, RANKS]],
            "ranks_per_row": 1,
        }
    ]
    assert (body["ranks_per_row"], body["steps_per_column"], body["first_step"]) == (1, 1, 0)
    assert body["start_us"] == [ZERO_US + step * STEP_US for step in range(STEPS)]
    assert body["silent"] == []


def test_a_piece_has_the_rows_and_columns_wanted(api: Api, finished: MadeRun) -> None:
    body = api.ask("grid?ranks=1..3&steps=18..40&rows=2&columns=7").json
    assert (body["ranks_per_row"], body["rows"], body["steps_per_column"]) == (2, 2, 4)
    assert (body["first_step"], body["columns"]) == (16, 7)
    among = [counted(finished, rank) for rank in (1, 2, 3)]
    for row, ranks in ((0, among[:2]), (1, among[2:])):
        for column in range(body["columns"]):
            steps = range(16 + 4 * column, 20 + 4 * column)
            known = [of[step] for of in ranks for step in steps if of[step] != 255]
            assert cells(body)[row][column] == max(known, default=255)
    assert body["programs"][0]["first_place"] == 1 and body["programs"][0]["ranks"] == [[1, 3]]


def test_the_ends_of_a_range_come_in_either_order(api: Api) -> None:
    assert api.ask("grid?ranks=3..1&steps=9..2").json == api.ask("grid?ranks=1..3&steps=2..9").json
    assert api.ask("grid?ranks=3..x").status_code == 400


@pytest.mark.parametrize("asked", ["grid?ranks=90..99", "grid?steps=90..99"])
def test_what_is_not_there_is_empty(api: Api, asked: str) -> None:
    body = api.ask(asked).json
    assert body["cells"] == "" and body["rows"] * body["columns"] == 0


@pytest.mark.parametrize("most_read", [600_000, 2])
@pytest.mark.parametrize(
    "piece",
    [
        Piece(),
        Piece((1, 3), None),
        Piece(None, (18, 41)),
        Piece((0, 4), (3, 3)),
        Piece((2, 4), (7, 59), 5, Grouping(2)),
    ],
)
def test_pieces_of_the_store_are_those_of_the_memory(
    finished: MadeRun, monkeypatch: pytest.MonkeyPatch, piece: Piece, most_read: int
) -> None:
    monkeypatch.setattr(gridreading, "MOST_READ", most_read)
    with open_run(finished.directory) as provenance:
        feed = Feed(finished.directory, provenance, None)
        feed.grid(Piece())
        ranks = [(0, rank) for rank in range(RANKS)]
        read = gridreading.read_piece(provenance, ranks, [], piece, STEPS - 1)
        width = read.steps_per_column
        assert width == 1 or piece.columns < STEPS or most_read == 2
        begin, end = piece.steps or (0, STEPS - 1)
        steps = begin // width * width, (end // width + 1) * width - 1
        fits = -(-(steps[1] - steps[0] + 1) // width)
        kept: Picture = feed.grid(Piece(piece.places, steps, fits, piece.grouping)).picture
        if kept.steps_per_column == width:
            assert msgspec.structs.astuple(read) == msgspec.structs.astuple(kept)
        else:
            assert kept.steps_per_column > width


def test_silent_ranks_are_named_and_ranks_without_steps_shown(tmp_path: Any) -> None:
    made = make_run(tmp_path / "heat", "running", 20)
    info = made.directory.read_info()
    engine = open_for_writing(info.store_url)
    silence = Silence(ZERO_US + 5, "MPI_Recv()", ZERO_US)
    health = made.health(20, "reading")
    silent = msgspec.structs.replace(health[3], state=SILENT, silence=silence)
    never = msgspec.structs.replace(health[3], rank=9, steps=0)
    Writer(engine, info.id).write_statistics(RunStatistics(health=[silent, never]))
    engine.dispose()
    with open_run(made.directory) as provenance:
        shown = Feed(made.directory, provenance, None).grid(Piece())
    assert shown.silent == [(3, (0, 3), silence)]
    assert shown.picture.programs[0].ranks == [(0, 5), (9, 1)]
    last_row = np.frombuffer(shown.picture.cells, np.uint8).reshape(6, 20)[5]
    assert (last_row == 255).all()
