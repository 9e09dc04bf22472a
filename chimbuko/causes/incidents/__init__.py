"""The incidents that slow calls make up, what recurs among them, and the sentences that tell of both.

May import causes, causes.evidence, causes.kinds, core.calls and monitor.sampling.
"""
