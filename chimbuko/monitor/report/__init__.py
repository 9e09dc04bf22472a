"""Reports of what was watched: text in ZeroSum's layout, logs, tables in ZeroSum's columns, and time series.

May import monitor.findings, monitor.gpus, monitor.procfs, monitor.sampling, monitor.topology and trace.
"""
