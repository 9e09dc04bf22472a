"""Readers of the formats of other tools: bytes in, events out; ``registry`` has them all.

May import core.kernels.
"""
