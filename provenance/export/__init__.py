"""Exports of a run for other tools: trace viewers, tables, Chimbuko's version 2, DataFrames.

May import capture.formats, causes, causes.kinds, core.calls, core.statistics, observe.namespaces.analyses,
provenance.compare, provenance.incidents, provenance.query, provenance.store, provenance.timeline,
runtime.protocol and runtime.runs.
"""
