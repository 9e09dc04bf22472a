"""The process that writes the streams of a traced program and of the processes that it starts.

Imports tracer, trace and process.
It begins in ``nursery.main``.
"""
