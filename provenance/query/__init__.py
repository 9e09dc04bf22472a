"""What can be asked of the provenance of a run.

May import calls, monitor.samples, protocol, provenance.store, runs and statistics.
"""
