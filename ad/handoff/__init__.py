"""What a stream's process and its agent share: mapped files, bells, and the values they are started with.

May import ad.analysis, ad.calls, ad.kernels, capture.follow, capture.trace, core.calls, core.kernels,
core.statistics, runtime.process and runtime.protocol.
"""
