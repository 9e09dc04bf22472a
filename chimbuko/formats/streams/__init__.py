"""How events of other tools become streams in TAU's layout, one for each process.

May import formats, formats.readers, process and trace.
"""
