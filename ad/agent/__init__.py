"""The agent of one node.

May import ad.detectors, ad.handoff, ad.hangs, ad.modelsync, ad.spool, ad.streamprocess, ad.streams, calls,
causes.recorded, follow, follow.guard, monitor.collector, monitor.gpus, monitor.samples, process, protocol and
trace.
Its process begins in ``__main__``.
"""
