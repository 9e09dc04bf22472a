"""Queries of the provenance of a run: calls, steps, models, statistics, and the activity of its nodes.

May import capture.trace, causes, causes.evidence, causes.kinds, core.calls, core.statistics,
monitor.procfs, monitor.sampling, plan, provenance.store, runtime.process, runtime.protocol and
runtime.runs.
"""
