"""The analysis of one stream, from the rows of a step to records and learned statistics. No I/O.

May import ad.calls, ad.detectors, ad.kernels, capture.trace, core.calls, core.statistics and
runtime.protocol.
"""
