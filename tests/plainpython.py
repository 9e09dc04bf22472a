"""How often properties are tried: less often where kernels run as plain Python, a hundred times slower.

Compiled, they are tried in full; as plain Python the lines of kernels are counted, and their twins compared.
"""

from __future__ import annotations

import os

from hypothesis import settings

SHARE = 4 if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") else 1


def examples(count: int) -> settings:
    """Settings of a property that is tried for so many examples where its kernels are compiled."""
    return settings(max_examples=max(count // SHARE, 1), deadline=None)
