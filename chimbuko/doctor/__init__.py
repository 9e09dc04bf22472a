"""Checks of a machine before a run, each of which tries out the real thing.

May import follow, kernels, launcher, monitor.findings, monitor.procfs, monitor.report, monitor.sampling,
process, protocol, provenance.store, recorder.native, runs, shield and trace.
"""
