"""Recorder of native programs: calls of MPI, constructs of OpenMP, instrumented functions, named regions.

May import capture.follow, capture.symbols, capture.trace, core.statistics, instrument.annotations,
instrument.tracer, runtime, runtime.process and runtime.runs.

The program preloads a C library (``launch`` sees to that, ``library`` builds it), which writes into rings
in shared memory (``layout``, ``ringfolder``), one per thread. A process beside the program, the drain,
begins in ``drain.main``: it reads the rings (``ring``), makes steps of them (``recording``) with a lane for
each stack of a thread, counts what is not recorded (``leftout``) and which threads come last to barriers
(``threadbalance``), describes how a process died (``ending``), and writes the streams with the tracer's
writer. ``watch`` reports to a run what the drains have lost.

A program that a recorded one starts may have another MPI: its library notices, and ``again`` finds the right
one. Programs that are started without any are named (``unrecorded``).

The library's wrappers of MPI are generated (``wrappers``, ``wrappers``) for all functions that the MPI of the
machine declares; one table says what they mean (``mpitable``). ``mpi`` finds the MPI of a program.
"""
