"""Tables and lists on standard output.

May import nothing of ours.
"""
