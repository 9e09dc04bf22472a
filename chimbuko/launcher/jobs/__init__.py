"""Job scripts of runs on many nodes: what each scheduler adds to one script for all.

May import runtime.process.
It begins in ``script``; ``archive`` is what nodes get of an installation.
"""
