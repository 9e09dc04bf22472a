"""The process of one stream: it drains the stream, analyses it and spools what it found.

May import ad.analysis, ad.calls, ad.detectors, ad.handoff, ad.spool, calls, follow, follow.guard, process,
protocol and trace.
It begins in ``forkserver.serve``, which forks ``process.run_child``.
"""
