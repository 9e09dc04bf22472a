"""Incidents and recurring findings of stored runs: how they are found there, and how they are read.

May import causes, causes.evidence, causes.incidents, causes.kinds, core.calls, core.statistics,
monitor.report, observe.namespaces.analyses, provenance.nodes, provenance.query, provenance.store,
runtime.protocol and runtime.runs.
"""
