"""Memory over runs: runs of the same thing form a series, which knows what changed, when, and how sure that is.

May import budget.
"""
