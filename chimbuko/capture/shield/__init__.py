"""Keeps an application alive whose trace is read over SST, when a reader dies while it joins.

May import runtime.

What is here imports nothing of ours but errors; the C library is loaded by the application's processes.
It begins in the dynamic linker of each of them (``LD_PRELOAD``), before the program does.
"""
