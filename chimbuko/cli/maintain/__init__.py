"""Verbs that look after runs, stores and the machine.

May import ad.analysis, ad.modelsync, ad.spool, ad.streamprocess, calls, cli.output, doctor,
follow.guard, formats.readers, formats.streams, kernels, launcher.outcome, process, protocol,
provenance.importing, provenance.manage, provenance.query, provenance.store, provenance.timeline, pserver,
runs and trace.
"""
