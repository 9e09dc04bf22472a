"""What can be asked of the provenance of a run.

May import calls, protocol, provenance.store, runs and statistics.
"""
