"""One process that analyses a recorded trace from its files to its store, without a broker: streams in
lockstep, and what they learn together.

May import ad.agent, ad.analysis, ad.detectors, ad.handoff, ad.modelsync, ad.streams, capture.trace,
causes, core.calls, core.kernels, core.statistics, provenance.explain, provenance.service,
provenance.store, provenance.write, pserver.state, runtime.process, runtime.protocol and runtime.runs.
Its process begins in ``__main__``.
"""
