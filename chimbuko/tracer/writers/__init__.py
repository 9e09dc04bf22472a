"""The process that writes the streams of a traced program and of the processes that it starts.

May import process, trace and tracer.
It begins in ``nursery.main``.
"""
