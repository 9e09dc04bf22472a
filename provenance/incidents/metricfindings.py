"""Findings of a run in quantities that its programs publish."""

from __future__ import annotations

import re

import msgspec
from sqlalchemy import select

from chimbuko.core.errors import ConfigError
from chimbuko.core.unpacking import unpacked
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.query.runreader import RunReader
from chimbuko.provenance.store.tables import METRIC_FINDINGS

# Made once, while this module is loaded by one thread, as those of incidents are.
_findings = msgspec.json.Decoder(Finding)

_ID = re.compile(r"M([1-9]\d{0,8})", re.ASCII)


class MetricFinding(msgspec.Struct, frozen=True):
    """Finding in a published quantity; times are µs since the epoch, by the publishers' clocks."""

    number: int
    """Number of the finding in the run, from 1 on."""
    id: str
    sentence: str
    finding: Finding


def is_metric_finding_id(text: str) -> bool:
    """Return whether a text has the form of the id of such a finding."""
    return _ID.fullmatch(text) is not None


def metric_findings(reader: RunReader) -> list[MetricFinding]:
    """Return all findings in published quantities, in the order in which they were found.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    columns = METRIC_FINDINGS.c
    statement = select(columns.number, columns.sentence, columns.details).where(columns.run == reader.run)
    return [
        MetricFinding(
            row.number,
            f"M{row.number}",
            row.sentence,
            _findings.decode(unpacked(row.details)),
        )
        for row in reader.rows(statement.order_by(columns.number))
    ]


def metric_finding(reader: RunReader, wanted: str) -> MetricFinding:
    """Return a finding in a published quantity by its id.

    Raises
    ------
    ConfigError
        The run has no such finding.
    """
    for one in metric_findings(reader):
        if one.id == wanted:
            return one
    raise ConfigError(f"finding {wanted!r}: not in this run; 'chimbuko incidents' lists those that are")
