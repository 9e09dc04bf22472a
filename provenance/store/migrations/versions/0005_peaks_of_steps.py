"""The most anomalies that one step of a rank had, in each stretch of steps, and abnormal calls by step.

Of functions, steps are counted where all their abnormal calls are recorded; where not, it stays unknown.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

LEVELS = range(1, 5)
ALL_RANKS = -1
MOST_SHOWN = 254
POWERS = ("squares", "cubes", "fourths")


def upgrade() -> None:
    for name in ("most_anomalies", "peaks"):
        op.add_column("step_levels", whole(name))
    for name in ("flagged_steps", "fewest_flagged", "most_flagged"):
        op.add_column("function_statistics", whole(name))
    for power in POWERS:
        op.add_column(
            "function_statistics",
            sa.Column(f"flagged_{power}", sa.Double(), nullable=False, server_default="0"),
        )
    make_peaks()
    make_most_over_ranks()
    count_flagged_steps()


def whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")


def make_peaks() -> None:
    for level in LEVELS:
        if level > 1:
            table, number, most = "step_levels", "bucket", "most_anomalies"
            below = f"level = {level - 1} AND rank <> {ALL_RANKS}"
        else:
            table, number, most, below = "steps", "step", "anomalies", "rank >= 0"
        shown = f"CASE WHEN {most} < {MOST_SHOWN} THEN {most} ELSE {MOST_SHOWN} END + 1"
        op.execute(
            "UPDATE step_levels SET most_anomalies = made.most, peaks = made.peaks FROM ("
            f"SELECT run, program, rank, {number} / 8 AS eighth_of, MAX({most}) AS most, "
            f"CAST(SUM(({shown}) << (8 * ({number} & 7))) AS BIGINT) AS peaks "
            f"FROM {table} WHERE {below} GROUP BY run, program, rank, {number} / 8) AS made "
            f"WHERE step_levels.level = {level} AND step_levels.run = made.run "
            "AND step_levels.program = made.program AND step_levels.rank = made.rank "
            "AND step_levels.bucket = made.eighth_of"
        )


def make_most_over_ranks() -> None:
    for level in (0, *LEVELS):
        op.execute(
            "UPDATE step_levels SET most_anomalies = made.most FROM ("
            f"SELECT run, program, step / {8**level} AS stretch, MAX(anomalies) AS most FROM steps "
            f"GROUP BY run, program, step / {8**level}) AS made "
            f"WHERE step_levels.level = {level} AND step_levels.rank = {ALL_RANKS} "
            "AND step_levels.run = made.run AND step_levels.program = made.program "
            "AND step_levels.bucket = made.stretch"
        )


def count_flagged_steps() -> None:
    by_step = (
        "SELECT run, function, COUNT(*) AS n FROM calls WHERE is_anomaly "
        "GROUP BY run, function, program, rank, step"
    )
    powers = ", ".join(
        f"SUM({' * '.join(['1.0', *['n'] * times])}) AS {power}"
        for times, power in enumerate(POWERS, start=2)
    )
    op.execute(
        "UPDATE function_statistics SET flagged_steps = made.steps, fewest_flagged = made.fewest, "
        f"most_flagged = made.most, {', '.join(f'flagged_{power} = made.{power}' for power in POWERS)} FROM ("
        f"SELECT run, function, COUNT(*) AS steps, SUM(n) AS anomalies, MIN(n) AS fewest, MAX(n) AS most, "
        f"{powers} FROM ({by_step}) AS counted GROUP BY run, function) AS made "
        "WHERE function_statistics.run = made.run AND function_statistics.function = made.function "
        "AND function_statistics.anomalies = made.anomalies"
    )
