"""What can be asked of the provenance of a run.

May import calls, causes, protocol, provenance.store, runs and statistics.
"""
