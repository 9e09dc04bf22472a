"""Tables and lists on standard output.

May import causes, causes.evidence, core.calls, launcher.outcome, monitor.report, plan,
provenance.incidents, provenance.manage, provenance.nodes, provenance.query, provenance.store,
runtime.process and runtime.runs.
"""
