"""The agent's watch over calls that do not end: which are overdue, and the reports of them.

Imports ad.streams, ad.modelsync and ad.detectors.
"""
