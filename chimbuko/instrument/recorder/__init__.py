"""Records native programs: MPI, functions that the compiler instruments, and what the program names itself.

May import capture.follow, capture.symbols, capture.trace, instrument.annotations, instrument.tracer,
runtime and runtime.process.

The program preloads a C library (``launch`` sees to that, ``native`` builds it), which writes into rings
in shared memory (``layout``, ``place``), one per thread. A process beside the program begins in
``drain.main``: it reads the rings (``ring``), makes steps of them (``recording``, ``mappings``), says which
functions the library has left out (``leftout``) and how a process died (``ending``), and writes the streams
with the tracer's writer. What it lost counts ``unwritten``, and a run hears of that from ``watch``.
"""
