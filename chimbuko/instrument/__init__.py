"""Code that runs in the user's program: tracer, recorder, annotations, and the compiler that weaves them in.

May import instrument.annotations, instrument.extensions and instrument.tracer.
"""
