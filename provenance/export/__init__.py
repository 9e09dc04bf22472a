"""A run for other tools: trace viewers, tables, Chimbuko's version 2, DataFrames.

May import capture.formats, causes, causes.kinds, core.calls, core.statistics,
observe.namespaces.analyses, provenance.incidents, provenance.query, provenance.timeline and
runtime.protocol.
"""
