"""What changed from one run to another. Pure but for the reading of profiles.

May import calls, namespaces.metrics, protocol, provenance.incidents, provenance.query and statistics.
"""
