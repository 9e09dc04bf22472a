"""Streams of a node as their agent sees them: how they appear, who reads them, what became of them.

May import ad.handoff, ad.streamprocess, capture.follow, capture.trace, core.calls, core.statistics,
monitor.procfs, runtime.process and runtime.protocol.
"""
