"""What nodes did beside the calls of a run, as it is stored.

May import calls, causes.evidence, monitor.samples, provenance.query and provenance.store.
"""
