"""How events of other tools become streams in TAU's layout, one for each process, and these one trace.

May import causes.evidence, formats, formats.readers, formats.writers, process and trace.
"""
