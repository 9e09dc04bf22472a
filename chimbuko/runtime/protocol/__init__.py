"""Protocol of the processes of a run over the broker: messages, keys, claims and membership.

May import core.calls, core.statistics and runtime.process.
"""
