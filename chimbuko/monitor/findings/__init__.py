"""What is wrong with how a program runs on its node, in words, with evidence and what to do.

May import monitor.procfs and monitor.sampling.
It begins in ``registry.findings``; each kind is a function from a span to findings. No I/O.
"""
