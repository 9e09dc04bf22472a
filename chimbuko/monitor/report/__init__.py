"""Reports of what was watched: text in ZeroSum's layout, and tables in ZeroSum's columns.

May import monitor.findings, monitor.gpus, monitor.procfs and monitor.sampling.
"""
