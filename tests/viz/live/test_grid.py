"""The grid of all ranks and steps, against a twin that keeps every step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount
from chimbuko.provenance.query.steps import Peaks
from chimbuko.provenance.store.coarserlevels import lost_code
from chimbuko.viz.live import grid as grid_module
from chimbuko.viz.live.grid import (
    MOST_COLUMNS,
    MOST_REPORTED,
    Grid,
    GridUpdate,
    Grouping,
    Picture,
    arranged,
    ranks_per_node,
)

UNKNOWN = 255
LAYERS = ("cells", "lost")
Cells = npt.NDArray[np.uint8]


def step(program: int, rank: int, number: int, anomalies: int = 0, lost_us: float = 0.0) -> StepCount:
    start_us = 1_000 + 10 * number + rank
    return StepCount(program, rank, number, start_us, start_us + 10, 5, anomalies, lost_us)


class Twin:
    """By the definition: a cell is the largest number of anomalies that one of its ranks had in one step, or
    the code of the most time that one of them lost in one."""

    def __init__(self) -> None:
        self.steps: dict[tuple[RankKey, int], StepCount] = {}
        self.ranks: set[RankKey] = set()

    def add(self, steps: Sequence[StepCount]) -> None:
        for one in steps:
            self.ranks.add((one.program, one.rank))
            self.steps[(one.program, one.rank), one.step] = one

    def cells(self, picture: Picture, layer: str = "cells") -> list[list[int]]:
        rows = []
        for ranks in rows_of(picture):
            firsts = range(picture.first_step, picture.first_step + length(picture), picture.steps_per_column)
            rows.append(
                [self._most(ranks, range(first, first + picture.steps_per_column), layer) for first in firsts]
            )
        return rows

    def starts(self, picture: Picture) -> list[int]:
        ranks = [rank for row in rows_of(picture) for rank in row]
        firsts = range(picture.first_step, picture.first_step + length(picture), picture.steps_per_column)
        return [
            min(
                (
                    self.steps[rank, number].start_us
                    for rank in ranks
                    for number in range(first, first + picture.steps_per_column)
                    if (rank, number) in self.steps
                ),
                default=0,
            )
            for first in firsts
        ]

    def _most(self, ranks: list[RankKey], numbers: range, layer: str) -> int:
        found = [
            min(self.steps[rank, number].anomalies, 254)
            if layer == "cells"
            else int(lost_code(self.steps[rank, number].severity_us))
            for rank in ranks
            for number in numbers
            if (rank, number) in self.steps
        ]
        return max(found, default=UNKNOWN)


def length(picture: Picture) -> int:
    return picture.columns * picture.steps_per_column


def rows_of(picture: Picture) -> list[list[RankKey]]:
    rows: list[list[RankKey]] = []
    for of in picture.programs:
        ranks = [(of.program, first + n) for first, count in of.ranks for n in range(count)]
        assert of.first_row == len(rows)
        rows += [ranks[at : at + picture.ranks_per_row] for at in range(0, len(ranks), picture.ranks_per_row)]
        assert of.rows == len(rows) - of.first_row
    return rows


def cells_of(picture: Picture, layer: str = "cells") -> list[list[int]]:
    cells = np.frombuffer(getattr(picture, layer), np.uint8)
    found: list[list[int]] = cells.reshape(picture.rows, picture.columns).tolist()
    return found


class Page:
    """What a page makes of a picture and updates (``lib/grid.ts``)."""

    def __init__(self, grid: Grid) -> None:
        self.read(grid)

    def read(self, grid: Grid) -> None:
        self.layout = grid.layout
        picture = grid.picture()
        self.width, self.rows = picture.steps_per_column, picture.rows
        shape = picture.rows, picture.columns
        self.layers: dict[str, Cells] = {}
        for layer in LAYERS:
            self.layers[layer] = np.zeros((picture.rows, MOST_COLUMNS), np.uint8)
            read = np.array(cells_of(picture, layer), np.uint8).reshape(shape)
            self.layers[layer][:, : picture.columns] = read + 1
        self.columns = picture.columns

    def take(self, grid: Grid, update: GridUpdate) -> None:
        if update.layout != self.layout:
            self.read(grid)
            return
        while self.width < update.steps_per_column:
            half = MOST_COLUMNS // 2
            for cells in self.layers.values():
                cells[:, :half] = np.maximum(cells[:, 0::2], cells[:, 1::2])
                cells[:, half:] = 0
            self.width *= 2
        self.columns = update.columns
        for layer, cells in self.layers.items():
            for packed in np.frombuffer(getattr(update, layer), "<u4").tolist():
                place = packed >> 18, packed >> 8 & 1023
                cells[place] = max(cells[place], (packed & 255) + 1)


counted = st.builds(
    step,
    st.integers(0, 1),
    st.sampled_from([0, 1, 2, 3, 7, 8, 40]),
    st.integers(0, 90),
    st.sampled_from([0, 0, 1, 2, 7, 254, 255, 4000]),
    st.sampled_from([0.0, 0.3, 1.0, 5.5, 2e6, 1e18]),
)


@settings(deadline=None)
@given(
    batches=st.lists(
        st.lists(counted, max_size=12, unique_by=lambda s: (s.program, s.rank, s.step)), max_size=8
    )
)
def test_grid_and_pages_that_follow_it_are_what_the_definition_says(batches: list[list[StepCount]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_module, "MOST_COLUMNS", 16)
        patch.setattr(grid_module, "FINEST", Grouping(5))
        patch.setattr(grid_module, "MOST_REPORTED", 4)
        grid, twin = Grid(), Twin()
        page = Page(grid)
        seen: dict[tuple[int, int, int], StepCount] = {}
        for batch in batches:
            # A step is counted once; it may be reported again.
            reported = [seen.setdefault((s.program, s.rank, s.step), s) for s in batch]
            grid.add_steps(reported)
            twin.add(reported)
            update = grid.changes()
            if update is not None:
                page.take(grid, update)
        while (update := grid.changes()) is not None:
            assert len(update.cells + update.lost) <= 4 * 4
            page.take(grid, update)
        picture = grid.picture(grouping=Grouping(5))
        assert picture.rows <= max(5, len(picture.programs))
        assert picture.columns <= 16
        for layer in LAYERS:
            assert cells_of(picture, layer) == twin.cells(picture, layer)
        assert picture.start_us == twin.starts(picture)
        assert (page.width, page.columns) == (picture.steps_per_column, picture.columns)
        for layer, cells in page.layers.items():
            assert (cells[:, : page.columns] - np.uint8(1)).tolist() == cells_of(picture, layer)


@settings(deadline=None)
@given(
    steps=st.lists(counted, min_size=1, max_size=40, unique_by=lambda s: (s.program, s.rank, s.step)),
    data=st.data(),
)
def test_a_piece_is_what_the_definition_says(steps: list[StepCount], data: st.DataObject) -> None:
    grid, twin = Grid(), Twin()
    grid.add_steps(steps)
    twin.add(steps)
    count = len(grid.ranks)
    places = sorted(data.draw(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    among = sorted(data.draw(st.tuples(st.integers(0, 95), st.integers(0, 95))))
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 40))
    picture = grid.picture((places[0], places[1]), (among[0], among[1]), Grouping(rows), columns)
    assert picture.columns <= columns
    assert picture.rows <= max(rows, len(picture.programs))
    assert [rank for row in rows_of(picture) for rank in row] == sorted(twin.ranks)[places[0] : places[1] + 1]
    assert [of.first_place for of in picture.programs][:1] == [places[0]]
    wanted = {key: one for key, one in twin.steps.items() if among[0] <= key[1] <= among[1]}
    for layer in LAYERS:
        assert cells_of(picture, layer) == twin.cells(picture, layer)
    last = max((number for _, number in wanted), default=None)
    if last is not None and picture.columns:
        assert picture.first_step + length(picture) > last


def test_stretches_of_steps_and_steps_make_one_grid() -> None:
    grid = Grid()
    grid.add_steps([step(0, 0, 0, 3, 4.0), step(0, 1, 17, 1, 1.0)])
    ones = np.ones(1, np.int64)
    eight = np.array([[1, 0, 0, 6, 0, 0, 0, 255]], np.uint8)
    grid.add_peaks(Peaks(8, 0 * ones, 0 * ones, 0 * ones, eight, np.minimum(eight, 5)))
    picture = grid.picture()
    assert picture.steps_per_column == 8
    assert cells_of(picture) == [
        [3, UNKNOWN, UNKNOWN, 5, *[UNKNOWN] * 3, 254],
        [UNKNOWN, UNKNOWN, 1, *[UNKNOWN] * 5],
    ]
    assert cells_of(picture, "lost") == [
        [7, UNKNOWN, UNKNOWN, 4, *[UNKNOWN] * 3, 4],
        [UNKNOWN, UNKNOWN, 1, *[UNKNOWN] * 5],
    ]


def test_ranks_that_never_gave_a_step_are_there() -> None:
    grid = Grid()
    grid.name([(0, 1), (0, 0)])
    grid.add_steps([step(0, 0, 0)])
    assert cells_of(grid.picture()) == [[0], [UNKNOWN]]


def test_the_layout_differs_with_the_ranks_and_the_silent_ones_only() -> None:
    one, other = Grid(), Grid()
    one.name([(0, 1), (0, 0)])
    other.name([(0, 0)])
    assert one.layout != other.layout
    other.name([(0, 1)])
    assert one.layout == other.layout
    before = one.layout
    one.add_steps([step(0, 1, 5)])
    one.note_silent(frozenset())
    assert one.layout == before
    one.note_silent(frozenset({(0, 1)}))
    assert one.layout != before
    update = one.changes()
    assert update is not None and update.layout == one.layout


def test_memory_does_not_grow_with_steps() -> None:
    grid = Grid()
    grid.add_steps([step(0, rank, 0) for rank in range(100)])
    before = grid._most.nbytes
    for number in range(0, 1_000_000, 50_000):
        grid.add_steps([step(0, rank, number, number % 7) for rank in range(100)])
    assert grid._most.nbytes == before
    assert grid.columns <= MOST_COLUMNS


def test_ten_thousand_ranks_are_reported_in_a_frame() -> None:
    grid = Grid()
    grid.name((0, rank) for rank in range(10_000))
    grid.add_steps([step(0, rank, 0) for rank in range(10_000)])
    grid.forget_changes()
    # In 0.25 s a quarter of the ranks gives a step; some are late.
    for turn in range(8):
        grid.add_steps(
            [step(0, rank, 1 + turn // 4 + rank % 5, rank % 3) for rank in range(turn % 4, 10_000, 4)]
        )
        update = grid.changes()
        assert update is not None
        assert len(update.cells + update.lost) <= 4 * MOST_REPORTED
    assert grid.picture().rows == 500


@given(
    ranks=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=80),
    first=st.integers(0, 9),
    most=st.integers(4, 30),
)
def test_rows_hold_each_rank_once_and_no_more_than_needed(ranks: set[RankKey], first: int, most: int) -> None:
    ordered = sorted(ranks)
    layout = arranged(ordered, first, Grouping(most))
    assert layout.rows <= most
    assert sorted(layout.members[layout.members >= 0].tolist()) == list(range(len(ordered)))
    found = [(of.program, n + at) for of in layout.programs for n, count in of.ranks for at in range(count)]
    assert found == ordered
    for of in layout.programs:
        assert ordered[of.first_place - first] == (of.program, of.ranks[0][0])
    counts = [sum(count for _, count in of.ranks) for of in layout.programs]
    if layout.ranks_per_row > 1:
        assert sum(-(-count // (layout.ranks_per_row - 1)) for count in counts) > most


def test_rows_of_groups_are_of_nodes_and_one_is_opened_in_place() -> None:
    ranks = [(0, rank) for rank in range(1000)]
    nodes = {rank: f"n{rank[1] // 16}" for rank in ranks}
    assert ranks_per_node(ranks, nodes) == 16
    assert ranks_per_node(ranks, nodes | {(0, 20): "n0"}) == ranks_per_node(ranks, {}) == 1
    closed = arranged(ranks, 0, Grouping(40, 16))
    assert (closed.ranks_per_row, closed.rows) == (32, 32)
    opened = arranged(ranks, 0, Grouping(40, 16, (64, 95)))
    rows = [(of.first_place, of.ranks_per_row, of.rows) for of in opened.programs]
    assert rows == [(0, 32, 2), (64, 16, 2), (96, 32, 29)]
    assert opened.rows == 33
    assert sorted(opened.members[opened.members >= 0].tolist()) == list(range(1000))
    single = arranged(ranks, 0, Grouping(40, 16, (64, 79)))
    assert [(of.ranks_per_row, of.rows) for of in single.programs] == [(48, 2), (1, 16), (48, 20)]


@given(
    counts=st.lists(st.lists(st.integers(0, 300), min_size=3, max_size=3), min_size=1, max_size=150),
    most=st.integers(1, 7),
)
@settings(max_examples=30, deadline=None)
def test_rows_show_sums_and_percentiles_of_their_ranks(counts: list[list[int]], most: int) -> None:
    grid = Grid()
    for rank, of_rank in enumerate(counts):
        # 300 stands for a step that was not analysed.
        grid.add_steps([step(0, rank, at, n, 10.0 * n) for at, n in enumerate(of_rank) if n < 300])
    if not grid.ranks:
        return
    for show in ("sum", "p99"):
        picture = grid.picture(grouping=Grouping(most), show=show)  # type: ignore[arg-type]
        cells = cells_of(picture)
        for row, ranks in enumerate(rows_of(picture)):
            for column in range(picture.columns):
                known = sorted(
                    min(counts[rank][column], 254) for _, rank in ranks if counts[rank][column] < 300
                )
                if not known:
                    assert cells[row][column] == UNKNOWN
                elif show == "sum":
                    assert cells[row][column] == lost_code(float(sum(known)))
                else:
                    assert cells[row][column] == known[len(known) - 1 - len(known) // 100]
