"""The agent's exchange of statistics with the parameter server: deltas out, the model back.

May import ad.analysis, ad.handoff, ad.streamprocess, ad.streams, calls, kernels, process, protocol,
statistics and trace.
"""
