"""Evidence that causes are found in: flagged calls as values, their communication, and what nodes did
meanwhile.

May import causes, core.calls, monitor.procfs and monitor.sampling.
"""
