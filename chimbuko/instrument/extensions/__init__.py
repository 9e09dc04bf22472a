"""Recording of extensions that a traced Python program imports: MPI by the recorder's library,
PyTorch by an observer.

May import instrument.hooks, instrument.recorder, instrument.tracer and runtime.

Finders (``importhook``) notice that the program, or a process that it starts, imports mpi4py or PyTorch.
Only then the recorder's library for the MPI of that is loaded (by ``loading``; ``preparingmpi`` finds or
builds it), before mpi4py is, so that mpi4py calls it. It writes into rings as in a native program. The
process that writes the Python tracer's stream (``writerserver``) reads these, too, and puts all into the
order of time, in one numbering (``joining``). Of PyTorch operators are observed (``observing``;
``preparingtorch`` builds the library), and iterations (``iterations``).
"""
