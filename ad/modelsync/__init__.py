"""The agent's exchange of statistics with the parameter server: deltas out, the model back.

May import ad.analysis, ad.handoff, ad.streams, core.calls, core.kernels, core.statistics, runtime.process
and runtime.protocol.
"""
