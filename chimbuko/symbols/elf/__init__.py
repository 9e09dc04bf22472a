"""What is read from ELF files: symbols, build ids, DWARF lines, load addresses, C++ names.

Imports nothing of ours.
"""
