"""The trace stream in TAU's ADIOS2 layout: schema, reader, writer, discovery.

May import process and symbols.
"""
