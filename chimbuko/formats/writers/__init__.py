"""Writers of the formats of other tools: steps of streams in, bytes out; ``registry`` has them all.

May import trace.
"""
