"""Compiled loops that several rooms share, how all of them are declared, and where their compiled code is
kept.

May import nothing of ours.
"""
