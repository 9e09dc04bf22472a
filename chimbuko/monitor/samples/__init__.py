"""Packed rows of what a node's threads, cores and memory did: how they add up, and how they travel.

May import nothing of ours.
"""
