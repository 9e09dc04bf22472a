"""A run for other tools: trace viewers, tables, Chimbuko's version 2, DataFrames.

May import calls, causes, causes.evidence, formats.writers, namespaces.metrics, protocol,
provenance.incidents, provenance.query, provenance.timeline and statistics.
"""
