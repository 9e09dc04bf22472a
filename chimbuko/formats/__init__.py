"""Traces of other tools: what their events are, and how they become streams in TAU's layout.

May import formats.kernels, trace.
"""
