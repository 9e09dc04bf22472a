"""Vocabulary that all rooms share: units, errors, settings, and small tools of one function each.

May import nothing of ours.
"""
