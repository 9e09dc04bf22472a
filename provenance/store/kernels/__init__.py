"""Compiled encoding of a call's details.

Imports kernels.
"""
