"""Tables and lists on standard output.

May import calls, causes, causes.evidence, insitu.placing, launcher.outcome, monitor.findings, process,
provenance.incidents, provenance.manage, provenance.nodes, provenance.query, provenance.store and runs.
"""
