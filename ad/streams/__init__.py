"""The streams of a node as their agent sees them: how they appear, who reads them, what became of them.

May import ad.handoff, ad.spool, ad.streamprocess, calls, follow, monitor.procfs, process, protocol,
statistics and trace.
"""
