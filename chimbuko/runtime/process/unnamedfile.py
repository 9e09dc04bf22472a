"""Files without a name, by which one process hands something to another that inherits them."""

from __future__ import annotations

import os

MEMORY = "/dev/shm"


def unnamed_file(name: str) -> int:
    """Return the descriptor of an empty file in memory that is gone when nobody has it open any more.

    Filters of system calls may refuse that (seccomp, of containers): it is a file without a name then, in
    ``/dev/shm``, or where temporary files are.
    """
    try:
        return os.memfd_create(name)
    except OSError:
        # Here because hardly anybody needs it: it takes 3 ms.
        from tempfile import TemporaryFile

        folder = MEMORY if os.access(MEMORY, os.W_OK) else None
        with TemporaryFile(dir=folder) as file:
            return os.dup(file.fileno())
