"""Compiled loops of the parameter server.

May import kernels.
"""
