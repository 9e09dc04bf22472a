"""What processes of a run say to each other over the broker: messages, keys, claims and membership.

May import core.calls, core.statistics and runtime.process.
"""
