"""The recorder's C library, ``library/``, and how it is built for the MPI that a program uses.

May import nothing of ours.

Its MPI part is made (``wrappers``) for all functions that the MPI there declares; what they mean stands in
one table (``mpitable``). Facts about programs and MPIs come from their files (``program``, ``mpi``).
"""
