"""Endpoints of the API.

May import causes, core.calls, core.statistics, observe.namespaces.analyses, plan, provenance.budget,
provenance.compare, provenance.export, provenance.history, provenance.incidents, provenance.nodes,
provenance.query, provenance.store, provenance.timeline, runtime.protocol, runtime.runs, viz.api and
viz.live.
"""

from __future__ import annotations

from chimbuko.viz.api.endpoints import (
    calls,
    comparison,
    functions,
    grid,
    incidents,
    nodes,
    ranks,
    run,
    steps,
    timeline,
    vitals,
    workflow,
)

_ENDPOINTS = (
    run.run,
    run.export_formats,
    run.budget,
    run.time_by_step,
    vitals.health,
    vitals.vitals,
    vitals.streams,
    vitals.gaps,
    vitals.placement,
    ranks.ranks,
    ranks.function_ranking,
    grid.grid,
    functions.functions,
    functions.function,
    functions.function_by_rank,
    functions.models,
    functions.paths,
    steps.steps,
    steps.step_columns,
    steps.all_steps,
    steps.step_sums,
    steps.all_step_sums,
    calls.calls,
    calls.all_calls,
    calls.call,
    calls.beside,
    calls.records,
    calls.points,
    calls.totals,
    incidents.incidents,
    incidents.incident,
    incidents.recurrence,
    incidents.one_metric_finding,
    incidents.lost_at,
    incidents.mark,
    workflow.workflow,
    workflow.quantity,
    nodes.nodes,
    nodes.node,
    nodes.node_threads,
    nodes.node_cores,
    nodes.node_gpus,
    timeline.timeline,
    timeline.timeline_functions,
    ranks.metadata,
    ranks.counters,
    comparison.runs,
    comparison.comparison,
    comparison.history,
)

ENDPOINTS = (*_ENDPOINTS, *(one.statement for one in _ENDPOINTS if one.statement is not None))
