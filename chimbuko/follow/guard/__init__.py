"""The guard of a folder of followed streams: it keeps the streams within their limits, whoever dies.

May import follow, process and runs.
Its process begins in ``guard.main``: ``python -m chimbuko.follow.guard``.
"""
