"""The agent of one node.

Imports every package of ad.
Its process begins in ``__main__``.
"""
