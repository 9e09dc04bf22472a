"""Findings about how a program runs on its node, and reports: text and tables as ZeroSum's, time series.

May import capture.trace, core.calls, instrument.recorder, monitor.procfs, monitor.sampling, runtime and
runtime.process.
"""
