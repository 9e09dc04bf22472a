"""What a stream's process and its agent share: mapped files, bells, and the values they are started with.

May import ad.analysis, ad.calls, ad.calls.kernels, ad.handoff.kernels, ad.records, calls, follow.guard,
kernels, process, protocol, statistics and trace.
"""
