"""Grid of all ranks over all steps: the anomalies of each rank's worst step, and the time that it lost."""

from __future__ import annotations

import base64
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import rank_text
from chimbuko.viz.live.grid import MOST_COLUMNS, MOST_ROWS, Grouping, ProgramRows, Shown
from chimbuko.viz.live.gridreading import Piece

_Range = Annotated[str, Meta(pattern=r"^[0-9]{1,9}\.\.[0-9]{1,9}$")]


class GridParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Piece of the grid, and the number of cells that it shall fit into."""

    ranks: Annotated[
        _Range | None,
        Meta(description="First and last place in the order of program and rank, as FIRST..LAST; else all."),
    ] = None
    steps: Annotated[_Range | None, Meta(description="First and last step, as FIRST..LAST; else all.")] = None
    rows: Annotated[int, Meta(ge=1, le=MOST_ROWS, description="Most rows, each of some ranks.")] = MOST_ROWS
    show: Annotated[
        Shown,
        Meta(
            description="What a row shows of its ranks, each with its worst step of a column: the largest "
            "number, the sum, or the one that 99 of 100 ranks do not exceed (p99). For the "
            "latter two, rows are of whole nodes where these have as many ranks each."
        ),
    ] = "worst"
    open: Annotated[
        _Range | None,
        Meta(
            description="Places of ranks that have rows of their own, or share them with few, as FIRST..LAST."
        ),
    ] = None
    columns: Annotated[int, Meta(ge=1, le=MOST_COLUMNS, description="Most columns, each of some steps.")] = (
        MOST_COLUMNS
    )


class SilentRank(msgspec.Struct, frozen=True):
    """Rank that reports no step."""

    rank: str
    place: int
    """Index of the rank in the order of program and rank."""
    function: str
    """Function of the innermost open call of the rank's main thread; empty if none is known."""
    entry_us: int
    """Time at which that call was entered, in µs since the epoch."""
    since_us: int
    """Time of the rank's newest event, in µs since the epoch."""


class GridAnswer(Answer, frozen=True, kw_only=True):
    """Grid with rows of ranks and columns of steps."""

    version: int
    layout: int
    """Number that differs where rows of the whole grid stand for other ranks, or others are silent."""
    programs: list[ProgramRows]
    """Ranks in each row, by program."""
    ranks_per_row: int
    """The most of any row."""
    show: Shown
    nodes: list[str]
    """Nodes of each row, where rows are of whole nodes; else empty."""
    rows: int
    first_step: int
    steps_per_column: int
    """Number of steps in a column, a power of two."""
    columns: int
    start_us: list[int]
    """Start of the first analysed step of each column; 0 if none is known."""
    cells: str
    """Cells, a byte each, row by row, in base64: the most anomalies that one of the ranks had in one of the
    steps, up to 254; 255 where no step was analysed. Of sums, codes as in `lost`.
    """
    lost: str
    """Most time that one of the ranks lost in one of the steps, a byte for each cell as in `cells`: 0 for
    none, else n for 2 ** ((n - 1) / 3) to 2 ** (n / 3) µs.
    """
    silent: list[SilentRank]


@get("/grid")
def grid(run: ServedRun, wanted: GridParameters) -> GridAnswer:
    """Return the grid of all ranks over all steps, or a piece of it in more detail.

    A cell is the largest number of anomalies that one rank had in one step, or the most time that one lost in
    one.
    """
    grouping = Grouping(wanted.rows, opened=_range(wanted.open))
    piece = Piece(_range(wanted.ranks), _range(wanted.steps), wanted.columns, grouping, wanted.show)
    shown = run.feed.grid(piece)
    picture = msgspec.structs.asdict(shown.picture)
    for layer in ("cells", "lost"):
        picture[layer] = base64.b64encode(picture[layer]).decode()
    return GridAnswer(
        **picture,
        version=shown.version,
        layout=shown.layout,
        show=wanted.show,
        nodes=shown.nodes,
        silent=[
            SilentRank(rank_text(rank), place, silence.function, silence.entry_us, silence.since_us)
            for place, rank, silence in shown.silent
        ],
    )


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, last = sorted(map(int, text.split("..")))
    return first, last
