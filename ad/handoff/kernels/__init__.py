"""Compiled loops of the shared files.

Imports kernels and trace.
"""
