"""SQL statements of endpoints' questions: one SELECT over a run's tables that a user can read, change
and ask again.

For ``chimbuko sql``, on SQLite and PostgreSQL alike. There ``:run`` stands for the run's number, and
``:run_id`` for its id.
"""

from __future__ import annotations

import re

from chimbuko.provenance.query.aggregates import By
from chimbuko.provenance.query.filters import MATCHES, CallFilter, Match
from chimbuko.provenance.query.names import FindingCalls

_SUMS = (
    "count(*) AS anomalies, sum(severity_us) AS severity_us, max(severity_us) AS highest_severity_us, "
    "max(score) AS highest_score"
)
"""Columns with sums over abnormal calls that have something in common."""

_OPERATORS = {"equal": "=", "least": ">=", "most": "<="}
_TABLES = {"anomaly": ("anomalies",), "normal": ("normal_calls",), None: ("anomalies", "normal_calls")}


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def calls_statement(wanted: CallFilter, detector: str, finding: FindingCalls | None, order: str = "") -> str:
    """Return the statement for the calls that a filter matches, in a run with this detector; ``finding`` is
    the finding that the filter names.
    """
    where = conditions(wanted, detector, finding)
    calls = " UNION ALL ".join(f"SELECT * FROM {table} WHERE {where}" for table in _TABLES[wanted.label])
    return f"{calls}{order}"


def conditions(wanted: CallFilter, detector: str, finding: FindingCalls | None) -> str:
    """Return all conditions of a filter but its label, for rows of the views ``anomalies`` and
    ``normal_calls``.
    """
    found = ["run_id = :run_id"]
    for name, match in MATCHES.items():
        value = getattr(wanted, name)
        if value is not None:
            found.append(_compared(match, value))
    if wanted.node is not None:
        found.append(_matches("node", wanted.node))
    if wanted.function is not None:
        found.append(_known("function", wanted.function))
    if wanted.through is not None:
        found.append(f"path IN ({_paths_below(_known('name', wanted.through))})")
    if wanted.text is not None:
        found.append(_holds(wanted.text))
    if wanted.time_max_us is not None:
        found.append(f"entry_us <= {wanted.time_max_us}")
    if wanted.time_min_us is not None:
        found.append(f"coalesce(exit_us, entry_us + inclusive_us) >= {wanted.time_min_us}")
    if wanted.finding is not None:
        found.append("1 = 0" if finding is None else finding.sql())
    if wanted.detector not in (None, detector):
        found.append("1 = 0")
    return " AND ".join(found)


def _compared(match: Match, value: bool | float | str) -> str:
    if isinstance(value, str):
        return f"{match.column} = {literal(value)}"
    if isinstance(value, bool):
        return match.column if value else f"NOT {match.column}"
    return f"{match.column} {_OPERATORS[match.how]} {value!r}"


def _known(column: str, name: str) -> str:
    """Return the condition on a name; a known name stands for itself alone, as C++ signatures contain
    ``*``.
    """
    exact = f"{column} = {literal(name)}"
    if not re.search(r"[*?]", name):
        return exact
    is_known = f"SELECT 1 FROM functions WHERE run = :run AND name = {literal(name)}"
    return f"({exact} OR ({_matches(column, name)} AND NOT EXISTS ({is_known})))"


def _matches(column: str, pattern: str) -> str:
    """Return the condition for a pattern with ``*`` and ``?``.

    LIKE ignores case on SQLite, so each piece must be there as it is written, too.
    """
    if not re.search(r"[*?]", pattern):
        return f"{column} = {literal(pattern)}"
    like = _escaped(pattern).replace("*", "%").replace("?", "_")
    pieces = [piece for piece in re.split(r"[*?]+", pattern) if re.search("[a-z]", piece, re.IGNORECASE)]
    return " AND ".join(
        [f"{column} LIKE {literal(like)} ESCAPE '\\'"]
        + [f"replace({column}, {literal(piece)}, '') <> {column}" for piece in pieces]
    )


def _escaped(text: str) -> str:
    return re.sub(r"[\\%_]", r"\\\g<0>", text)


def _holds(text: str) -> str:
    """Return the condition for a part of a name on the call path, or of the node's name."""
    part = literal(f"%{_escaped(text.lower())}%")
    paths = _paths_below(f"lower(name) LIKE {part} ESCAPE '\\'")
    names = " OR ".join(f"lower({column}) LIKE {part} ESCAPE '\\'" for column in ("node", "function"))
    return f"({names} OR path IN ({paths}))"


def _paths_below(condition: str) -> str:
    """Return the statement for call paths on which a function fulfils a condition."""
    return (
        "WITH RECURSIVE found(number) AS (SELECT p.number FROM paths p JOIN functions f "
        f"ON f.run = p.run AND f.number = p.function WHERE p.run = :run AND {condition} "
        "UNION SELECT p.number FROM paths p JOIN found ON p.parent = found.number WHERE p.run = :run) "
        "SELECT number FROM found"
    )


def call_statement(event_id: str) -> str:
    """Return the statement for the figures of one call, whether it is abnormal or recorded for comparison."""
    where = f"run_id = :run_id AND call = {literal(event_id)}"
    return f"SELECT * FROM anomalies WHERE {where} UNION ALL SELECT * FROM normal_calls WHERE {where}"


def totals_statement(where: str, by: By, width_us: int, limit: int) -> str:
    """Return the statement for sums over the abnormal calls that fulfil a condition, grouped by what they
    have in common.

    Intervals of time have ``width_us``.
    """
    name, key = "start_us", f"entry_us / {width_us} * {width_us}"
    if by != "time":
        name = key = {"function": "program, function", "rank": "program, rank"}.get(by, by)
    keys = key if name == key else f"{key} AS {name}"
    order = key if by in ("step", "time") else "sum(severity_us) DESC"
    return (
        f"SELECT {keys}, {_SUMS} FROM anomalies WHERE {where} GROUP BY {key} ORDER BY {order} LIMIT {limit}"
    )


def functions_statement(condition: str, order: str = "") -> str:
    """Return the statement for statistics of functions over all their calls."""
    return (
        "SELECT f.program, f.name, s.* FROM function_statistics s "
        "JOIN functions f ON f.run = s.run AND f.number = s.function "
        f"WHERE f.run = :run{condition}{order}"
    )


def paths_statement(condition: str) -> str:
    """Return the statement for call paths that end in some functions, outermost caller first, with their
    statistics.
    """
    return (
        "WITH RECURSIVE tree(number, function, callers) AS ("
        "SELECT p.number, p.function, f.name FROM paths p JOIN functions f "
        "ON f.run = p.run AND f.number = p.function WHERE p.run = :run AND p.parent = -1 "
        "UNION ALL SELECT p.number, p.function, tree.callers || ' > ' || f.name "
        "FROM paths p JOIN tree ON p.parent = tree.number "
        "JOIN functions f ON f.run = p.run AND f.number = p.function WHERE p.run = :run) "
        "SELECT tree.number AS path, tree.callers AS functions, s.begun, s.spent_us, s.calls, "
        "s.exclusive_mean_us, "
        "s.inclusive_mean_us, coalesce(t.anomalies, 0) AS anomalies, "
        "coalesce(t.severity_us, 0) AS severity_us "
        "FROM tree JOIN functions f ON f.run = :run AND f.number = tree.function "
        "LEFT JOIN path_statistics s ON s.run = :run AND s.path = tree.number "
        "LEFT JOIN path_totals t ON t.run = :run AND t.path = tree.number "
        f"WHERE (s.begun > 0 OR s.calls > 0 OR t.anomalies > 0){condition} ORDER BY severity_us DESC"
    )


def ranking_statement(order: str, most: int) -> str:
    """Return the statement for the ranks with the largest and then those with the smallest value of a column
    below.
    """
    ranks = (
        "SELECT program, rank, count(*) AS steps, sum(anomalies) AS total, "
        "sum(anomalies) * 1.0 / count(*) AS mean, "
        "CASE WHEN count(*) > 1 THEN (sum(anomalies * anomalies) - sum(anomalies) * 1.0 * sum(anomalies) "
        "/ count(*)) / (count(*) - 1) ELSE 0 END AS variance, min(anomalies) AS minimum, "
        "max(anomalies) AS maximum, sum(severity_us) AS severity_us, max(step) AS last_step "
        "FROM steps WHERE run = :run GROUP BY program, rank"
    )
    ends = " UNION ALL ".join(
        f"SELECT * FROM (SELECT '{end}' AS list, ranks.* FROM ranks "
        f"ORDER BY {order} {way} LIMIT {most}) AS {end}"
        for end, way in (("most", "DESC"), ("least", "ASC"))
    )
    return f"WITH ranks AS ({ranks}) {ends}"


def steps_statement(ranks: list[tuple[int, int]], after: int | None) -> str:
    """Return the statement for each analysed step of some ranks, given as program and rank."""
    each = " OR ".join(f"(program = {program} AND rank = {rank})" for program, rank in ranks)
    later = "" if after is None else f" AND step > {after}"
    return f"SELECT * FROM steps WHERE run = :run AND ({each}){later} ORDER BY program, rank, step"


def metadata_statement(condition: str) -> str:
    """Return the statement for the metadata of ranks."""
    return (
        "SELECT m.program, m.rank, m.thread, k.text AS key, v.text AS value FROM metadata m "
        "JOIN texts k ON k.run = m.run AND k.number = m.key "
        "JOIN texts v ON v.run = m.run AND v.number = m.value "
        f"WHERE m.run = :run{condition} ORDER BY 1, 2, 3, 4"
    )


def counters_statement(condition: str) -> str:
    """Return the statement for the totals of each counter of each rank."""
    return (
        "SELECT c.program, c.rank, t.text AS counter, c.n, c.mean, "
        "CASE WHEN c.n > 1 THEN c.m2 / (c.n - 1) ELSE 0 END AS variance, c.minimum, c.maximum "
        "FROM counter_statistics c JOIN texts t ON t.run = c.run AND t.number = c.counter "
        f"WHERE c.run = :run{condition} ORDER BY 1, 2, 3"
    )


def of_program(alias: str, program: int | None, rank: int | None = None) -> str:
    """Return further conditions on a table's program and rank, each with AND before it."""
    given = (("program", program), ("rank", rank))
    return "".join(f" AND {alias}.{name} = {value}" for name, value in given if value is not None)
