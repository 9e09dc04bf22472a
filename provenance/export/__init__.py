"""A run for other tools: trace viewers, tables, Chimbuko's version 2, DataFrames.

May import calls, causes, causes.evidence, formats.writers, kernels, protocol, provenance.compare,
provenance.incidents, provenance.query, provenance.store, provenance.timeline, runs and statistics.
"""
