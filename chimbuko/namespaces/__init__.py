"""Observation namespaces: what programs, nodes and workflows report of themselves, under hierarchical keys.

May import nothing of ours.
"""
