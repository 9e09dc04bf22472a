"""Tables and lists on standard output.

May import causes, core.calls, launcher.outcome, monitor.report, plan, provenance.incidents,
provenance.manage, provenance.nodes, provenance.query, provenance.store, runtime.process and
runtime.runs.
"""
