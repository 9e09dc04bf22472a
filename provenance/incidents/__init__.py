"""Incidents and recurring findings of stored runs: how they are found there, how they are read, and what
they took of the time of a run.

May import causes, causes.evidence, causes.incidents, causes.kinds, core.calls, core.statistics,
monitor.report, observe.namespaces.analyses, provenance.query, provenance.store, runtime.protocol and
runtime.runs.
"""
