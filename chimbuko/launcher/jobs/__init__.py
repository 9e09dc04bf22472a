"""Job scripts of runs on many nodes: one module for each scheduler, and one script for all.

May import runtime.process.
It begins in ``script``; ``archive`` is what nodes get of an installation.
"""
