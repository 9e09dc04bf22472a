"""The parameter server: it merges what agents learned, and publishes the model and frames.

May import calls, kernels, process, protocol, pserver.state and statistics.
Its process begins in ``__main__``.
"""
