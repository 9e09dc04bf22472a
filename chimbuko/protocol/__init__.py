"""What processes of a run say to each other over the broker: messages, keys, claims and membership.

Imports statistics, calls and process.
"""
