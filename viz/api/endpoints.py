"""All endpoints of the API."""

from __future__ import annotations

from chimbuko.viz.api import (
    attributes,
    calls,
    comparison,
    functions,
    grid,
    health,
    paths,
    points,
    ranks,
    run,
    steps,
    timeline,
    totals,
    vitals,
)

ENDPOINTS = (
    run.run,
    health.health,
    vitals.vitals,
    vitals.streams,
    vitals.gaps,
    ranks.ranks,
    grid.grid,
    functions.functions,
    functions.function,
    functions.models,
    paths.paths,
    steps.steps,
    steps.all_steps,
    steps.step_sums,
    steps.all_step_sums,
    calls.calls,
    calls.all_calls,
    calls.call,
    calls.records,
    points.points,
    totals.totals,
    timeline.timeline,
    attributes.metadata,
    attributes.counters,
    comparison.runs,
    comparison.comparison,
)
