"""The agent's watch over calls that do not end: which are overdue, and the reports of them.

May import ad.calls.kernels, ad.detectors, ad.handoff, ad.modelsync, ad.records, ad.spool, ad.streams,
calls, statistics and trace.
"""
