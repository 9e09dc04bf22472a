"""Compilation of C and C++ by which functions with PerfFlowAspect's attributes are recorded.

May import instrument.annotations and instrument.recorder.

A source with annotated functions is preprocessed by the program's own compiler; libclang finds their
bodies in the text, each body gets a region of ``chimbuko.h`` as its first statement, and the compiler
compiles that. So inlining, templates and exceptions work, and nothing else is instrumented.
"""
