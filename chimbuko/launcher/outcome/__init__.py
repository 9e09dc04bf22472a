"""What becomes of a run, for people: progress, summary, losses, what can be recovered, judging it again.

May import ad.detectors, calls, process, protocol, provenance.incidents, provenance.manage,
provenance.query, provenance.store, runs, statistics, symbols and trace.
"""
