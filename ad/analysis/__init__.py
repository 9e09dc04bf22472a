"""The analysis of one stream, from the rows of a step to records and learned statistics. No I/O.

Imports ad.records, ad.calls and ad.detectors.
"""
