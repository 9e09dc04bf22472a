"""The most time that one step of a rank lost, in each stretch of steps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

LEVELS = range(1, 5)
ALL_RANKS = -1
BOUNDS_US = tuple(2.0 ** (third / 3) for third in range(1, 127))


def upgrade() -> None:
    op.add_column(
        "step_levels", sa.Column("highest_lost_us", sa.Double(), nullable=False, server_default="0")
    )
    op.add_column("step_levels", sa.Column("lost_peaks", sa.BigInteger(), nullable=False, server_default="0"))
    make_peaks()
    make_highest_over_ranks()


def make_peaks() -> None:
    for level in LEVELS:
        if level > 1:
            table, number, lost = "step_levels", "bucket", "highest_lost_us"
            below = f"level = {level - 1} AND rank <> {ALL_RANKS}"
        else:
            table, number, lost, below = "steps", "step", "severity_us", "rank >= 0"
        code = f"CASE WHEN {lost} > 0 THEN {code_between(lost, 1, len(BOUNDS_US) + 1)} ELSE 0 END + 1"
        op.execute(
            "UPDATE step_levels SET highest_lost_us = made.most, lost_peaks = made.peaks FROM ("
            f"SELECT run, program, rank, {number} / 8 AS eighth_of, MAX({lost}) AS most, "
            f"CAST(SUM(CAST({code} AS BIGINT) << (8 * ({number} & 7))) AS BIGINT) AS peaks "
            f"FROM {table} WHERE {below} GROUP BY run, program, rank, {number} / 8) AS made "
            f"WHERE step_levels.level = {level} AND step_levels.run = made.run "
            "AND step_levels.program = made.program AND step_levels.rank = made.rank "
            "AND step_levels.bucket = made.eighth_of"
        )


def code_between(lost: str, low: int, high: int) -> str:
    if low == high:
        return str(low)
    middle = (low + high) // 2
    below, above = code_between(lost, low, middle), code_between(lost, middle + 1, high)
    return f"CASE WHEN {lost} < {BOUNDS_US[middle - 1]!r} THEN {below} ELSE {above} END"


def make_highest_over_ranks() -> None:
    for level in (0, *LEVELS):
        op.execute(
            "UPDATE step_levels SET highest_lost_us = made.most FROM ("
            f"SELECT run, program, step / {8**level} AS stretch, MAX(severity_us) AS most FROM steps "
            f"GROUP BY run, program, step / {8**level}) AS made "
            f"WHERE step_levels.level = {level} AND step_levels.rank = {ALL_RANKS} "
            "AND step_levels.run = made.run AND step_levels.program = made.program "
            "AND step_levels.bucket = made.stretch"
        )
