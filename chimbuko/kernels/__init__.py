"""Compiled loops that several rooms share, and how all of them are declared.

May import process.
"""
