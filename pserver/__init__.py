"""The parameter server: it merges what agents learned, and publishes the model and frames.

May import core.statistics, pserver.state, runtime.process and runtime.protocol.
Its process begins in ``__main__``.
"""
