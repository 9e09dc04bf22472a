"""Streams of a node: how they appear, the process that reads, analyses and spools each, what became of them.

May import ad.analysis, ad.calls, ad.detectors, ad.handoff, capture.follow, capture.trace, core.calls,
core.statistics, monitor.procfs, runtime.process and runtime.protocol.
That process begins in ``forkserver.serve``, which forks ``process.run_child``.
"""
