"""Calls that nobody flagged, found in the raw rows of a rank: who waited, and who lost time by itself.

May import calls, causes.evidence and trace.
"""
