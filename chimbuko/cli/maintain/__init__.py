"""Verbs that look after runs, stores and the machine.

May import ad.analysis, ad.handoff, ad.modelsync, capture.follow, capture.formats,
capture.formats.readers, capture.trace, causes.kinds, cli.shared, core.calls, core.kernels, launcher,
launcher.jobs, launcher.outcome, provenance.explain, provenance.export, provenance.history,
provenance.importing, provenance.manage, provenance.query, provenance.store, provenance.timeline,
runtime.process, runtime.protocol and runtime.runs.
"""
