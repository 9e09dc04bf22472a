"""Outcome of a run, for people: progress, summary, losses, what can be recovered, judging it again.

May import ad.detectors, ad.handoff, ad.modelsync, capture.symbols, capture.trace, causes.evidence,
core.calls, core.statistics, provenance.incidents, provenance.manage, provenance.query, provenance.store,
provenance.timeline, provenance.write, pserver.state, runtime.process, runtime.protocol and runtime.runs.
"""
