"""Names for addresses: functions that TAU could not name, as it would have named them.

May import runtime.process.

``resolver`` is what a stream's reader uses. It finds out where the binaries lie in the traced process
(``tracedprocess``, ``maps``; ``loadbase`` where the process has ended), and what lies there (``cache``).
What a binary holds is looked up by a process of its own, ``lookup``, with limits of time and memory: it
reads the ELF (``binary``) and DWARF (``debuglines``, ``lineprogram``) of files that nobody has checked.
"""
