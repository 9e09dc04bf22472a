"""What causes are found in: flagged calls as values, who waits in what, and what else was lost meanwhile.

May import causes, core.calls, monitor.procfs and monitor.samples.
"""
