"""The streams of a node as their agent sees them: how they appear, who reads them, what became of them.

Imports ad.streamprocess, ad.handoff and ad.spool.
"""
