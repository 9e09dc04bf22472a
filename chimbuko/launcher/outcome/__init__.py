"""Outcome of a run, for people: progress, summary, losses, what can be recovered.

May import ad.handoff, ad.modelsync, capture.symbols, capture.trace, causes, causes.incidents, core.calls,
core.statistics, provenance.explain, provenance.history, provenance.incidents, provenance.manage,
provenance.query, provenance.store, provenance.write, pserver.state, runtime.process, runtime.protocol and
runtime.runs.
"""
