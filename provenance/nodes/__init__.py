"""What nodes did beside the calls of a run, as it is stored.

May import monitor.samples, provenance.query and provenance.store.
"""
