"""Analysis of recorded streams in lockstep without an agent's process: streams, and what they learn together.

May import ad.agent, ad.analysis, ad.handoff, ad.modelsync, ad.streamprocess, ad.streams,
capture.trace, core.calls, core.kernels, core.statistics, runtime.process and runtime.protocol.
"""
