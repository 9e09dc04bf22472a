"""Activity of nodes beside the calls of a run, as it is stored.

May import capture.trace, causes, causes.evidence, causes.kinds, core.calls, monitor.procfs,
monitor.sampling, plan, provenance.query, provenance.store, runtime.process, runtime.protocol and
runtime.runs.
"""
