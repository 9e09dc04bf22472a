"""Why calls were slow: causes of flagged calls, and the incidents that they make up. No I/O.

May import calls, causes.evidence, causes.kinds and monitor.samples.
"""
