"""Why calls were slow: causes of flagged calls, and the incidents that they make up. No I/O.

May import causes.evidence, causes.kinds, core.calls and monitor.samples.
"""
