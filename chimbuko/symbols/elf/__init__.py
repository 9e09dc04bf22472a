"""What is read from ELF files: symbols, build ids, DWARF lines, load addresses, C++ names.

May import nothing of ours.
"""
