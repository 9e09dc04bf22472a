"""What changed from one run to another. Pure but for the reading of profiles.

Imports provenance.query and statistics.
"""
