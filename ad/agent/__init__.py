"""The agent of one node.

May import ad.calls, ad.detectors, ad.handoff, ad.kernels, ad.modelsync, ad.streams, capture.follow,
capture.trace, causes.evidence, core.calls, core.kernels, core.statistics, monitor.collector,
monitor.procfs, monitor.sampling, runtime.process and runtime.protocol.
Its process begins in ``__main__``.
"""
