"""Process of one stream: it drains the stream, analyses it and spools the findings.

May import ad.analysis, ad.calls, ad.detectors, ad.handoff, capture.follow, capture.trace, core.calls,
runtime.process and runtime.protocol.
It begins in ``forkserver.serve``, which forks ``process.run_child``.
"""
