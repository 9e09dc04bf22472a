"""What processes of a run say to each other over the broker: messages, keys, claims and membership.

May import calls, process, statistics and trace.
"""
