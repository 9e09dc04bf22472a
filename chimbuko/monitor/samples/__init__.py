"""What a node's threads, cores and memory did, as packed rows: how they are added up, and how they travel.

May import nothing of ours.
"""
