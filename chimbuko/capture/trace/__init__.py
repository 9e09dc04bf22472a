"""The trace stream in TAU's ADIOS2 layout: schema, reader, writer, discovery.

May import capture.symbols, runtime, runtime.process and runtime.runs.
"""
