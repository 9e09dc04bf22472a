"""What becomes of a run, for people: progress, summary, losses, what can be recovered, judging it again.

May import ad.detectors, ad.handoff, ad.modelsync, ad.spool, calls, causes.recorded, process, protocol,
provenance.incidents, provenance.manage, provenance.query, provenance.store, provenance.timeline,
provenance.write, pserver.state, runs, statistics, symbols and trace.
"""
