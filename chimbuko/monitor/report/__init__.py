"""Reports of what was watched: text in ZeroSum's layout, and tables in ZeroSum's columns, and time series.

May import monitor.findings, monitor.gpus, monitor.procfs, monitor.sampling and trace.
"""
