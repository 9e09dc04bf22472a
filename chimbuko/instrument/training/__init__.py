"""Observer of PyTorch in a traced Python program: operators, collective operations and iterations are calls.

May import instrument.pythonmpi, instrument.recorder, instrument.tracer, instrument.hooks and runtime.

A finder (``importhook``) notices that the program has imported torch. Only then (``observing``) the
recorder's library is loaded, and a small observer that is built with the headers of that PyTorch
(``preparing``). Both write into rings, whose rows join those of Python as those of MPI do. ``iterations``
finds what a training repeats.
"""
