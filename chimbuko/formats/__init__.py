"""Traces of other tools: what all of them have in common.

May import nothing of ours.
"""
