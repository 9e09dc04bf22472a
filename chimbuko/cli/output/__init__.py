"""Tables and lists on standard output.

May import causes.evidence, launcher.outcome, process, provenance.incidents, provenance.manage,
provenance.store and runs.
"""
