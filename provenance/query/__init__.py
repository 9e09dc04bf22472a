"""What can be asked of the provenance of a run.

May import causes, core.calls, core.statistics, provenance.store, runtime.protocol and runtime.runs.
"""
