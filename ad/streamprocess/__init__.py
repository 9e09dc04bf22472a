"""The process of one stream: it drains the stream, analyses it and spools what it found.

Imports ad.analysis, ad.handoff and ad.spool.
It begins in ``forkserver.serve``, which forks ``process.run_child``.
"""
