"""Traces of other tools: what all of them have in common.

May import capture.formats.readers, capture.trace, core.calls and runtime.process.
"""
