"""Options that several verbs share, and the values that are made of them.

May import ad.detectors, launcher, protocol, provenance.alerts, provenance.query, provenance.store,
provenance.write, runs and statistics.
"""
