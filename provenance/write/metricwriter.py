"""Writes what was found in quantities that programs publish."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, select

from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.store.tables import METRIC_FINDINGS
from chimbuko.provenance.store.upsert import insert


def write_metric_findings(connection: Connection, run: int, found: Sequence[Finding]) -> list[int]:
    """Write those that a run does not have yet; returns their numbers."""
    columns = METRIC_FINDINGS.c
    stored = connection.execute(select(columns.number, columns.details).where(columns.run == run)).all()
    known = {_unpacked(packed).key for _, packed in stored}
    new = {one.key: one for one in found if one.key not in known}
    first = max((number for number, _ in stored), default=0) + 1
    rows = [
        (run, number, one.kind.value, one.quantity, one.begin_us, one.found_us, one.sentence, _packed(one))
        for number, one in enumerate(new.values(), first)
    ]
    insert(connection, METRIC_FINDINGS, METRIC_FINDINGS.columns.keys(), rows)
    return [row[1] for row in rows]


def _packed(one: Finding) -> bytes:
    return zlib.compress(msgspec.json.encode(one))


def _unpacked(packed: bytes) -> Finding:
    return msgspec.json.decode(zlib.decompress(packed), type=Finding)
