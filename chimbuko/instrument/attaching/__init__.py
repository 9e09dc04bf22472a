"""Recording of a Python program that runs already: how it is brought to run a few lines of ours.

May import runtime.process.
It begins in ``recording``.
"""
