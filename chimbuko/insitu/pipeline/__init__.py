"""The pipeline for any number of ranks: load, lag, memory and loss of each part, and what is full first.

May import insitu.placing.
It begins in ``simulation.simulate``; ``bottleneck`` says what to do. No I/O but the measured costs.
"""
