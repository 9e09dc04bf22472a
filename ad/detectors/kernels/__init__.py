"""Compiled loops of the detectors.

May import kernels.
"""
