"""Reports of what was watched: text in ZeroSum's layout, logs, tables in ZeroSum's columns, and time series.

May import capture.trace, instrument.recorder, monitor.findings, monitor.procfs, monitor.sampling,
runtime and runtime.process.
"""
