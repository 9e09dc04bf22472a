"""All endpoints of the API."""

from __future__ import annotations

from chimbuko.viz.api import attributes, calls, comparison, functions, health, ranks, run, steps

ENDPOINTS = (
    run.run,
    health.health,
    ranks.ranks,
    functions.functions,
    functions.function,
    functions.models,
    steps.steps,
    steps.all_steps,
    calls.calls,
    calls.all_calls,
    calls.call,
    calls.records,
    attributes.metadata,
    attributes.counters,
    comparison.runs,
    comparison.comparison,
)
