"""Stored calls judged again by the final model, and explained again by what the trace still knows.

May import ad.detectors, ad.handoff, capture.trace, causes, causes.evidence, causes.incidents,
causes.kinds, core.calls, core.statistics, provenance.incidents, provenance.query, provenance.store,
provenance.timeline, provenance.write, runtime.process, runtime.protocol and runtime.runs.
"""
