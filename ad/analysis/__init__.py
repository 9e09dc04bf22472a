"""The analysis of one stream, from the rows of a step to records and learned statistics. No I/O.

May import ad.analysis.kernels, ad.calls, ad.calls.kernels, ad.detectors, ad.records, calls, protocol,
statistics and trace.
"""
