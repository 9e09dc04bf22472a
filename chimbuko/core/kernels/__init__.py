"""Compiled loops that several rooms share, how all of them are declared, and where they are kept compiled.

May import nothing of ours.
"""
