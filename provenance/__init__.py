"""The provenance store: tables, the one writer, and what can be asked.

May import nothing of ours.
"""
