"""Names of functions for addresses that TAU could not name, in TAU's own format.

May import runtime.process and runtime.runs.

The reader of a stream uses ``resolver``. It finds out where the binaries lie in the traced process
(``resolver``, ``maps``; ``loadbase`` where the process has ended), and which functions they have there
(``cache``). A process of its own, ``lookup``, looks up the functions of a binary, with limits of time and
memory: it reads the ELF (``binary``) and DWARF (``debuglines``, ``debuglines``) of untrusted files.
"""
