"""Tables and lists on standard output.

May import calls, causes, causes.evidence, launcher.outcome, monitor.findings, process,
provenance.incidents, provenance.manage, provenance.query, provenance.store and runs.
"""
