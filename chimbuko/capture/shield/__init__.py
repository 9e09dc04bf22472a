"""Shield: keeps an application alive whose trace is read over SST, when a reader dies while it joins.

May import runtime.

The processes of the application load its C library through the dynamic linker (``LD_PRELOAD``), before the
program begins.
"""
