"""Recorder of MPI inside of a traced Python program: its calls stand among those of Python, in one stream.

May import instrument.hooks, instrument.recorder, instrument.tracer and runtime.

A finder (``importhook``) notices that the program, or a process that it starts, imports mpi4py. Only then the
recorder's library for the MPI of that is loaded (by ``loading``; ``preparing`` finds or builds it), before
mpi4py is, so that mpi4py calls it. It writes
into rings as in a native program. The process that writes the Python tracer's stream (``writerserver``) reads
these, too, and puts all into the order of time (``joining``, ``mergedrows``), in one numbering (``source``).
"""
