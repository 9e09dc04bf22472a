"""What changed from one run to another. Pure but for the reading of profiles.

May import calls, protocol, provenance.incidents, provenance.query and statistics.
"""
