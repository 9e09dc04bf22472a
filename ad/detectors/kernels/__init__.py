"""Compiled loops of the detectors.

Imports kernels.
"""
