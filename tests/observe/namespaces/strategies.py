"""Trees, leaves and changes as Hypothesis makes them up."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chimbuko.observe.namespaces.exchange.leaves import NUMBERS, Leaf, as_leaf
from chimbuko.observe.namespaces.exchange.paths import Path

TYPES = st.sampled_from([*map(np.dtype, NUMBERS), np.dtype(bool)])
KEYS = st.sampled_from(["a", "b", "Rank 3", "50%", "x/y", "%2F", "é"]) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
).filter(lambda key: key != "..")
PATHS: st.SearchStrategy[Path] = st.lists(KEYS, min_size=1, max_size=4).map(tuple)
SCALARS: st.SearchStrategy[object] = (
    st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | TYPES.flatmap(lambda dtype: arrays.from_dtype(dtype))
)
SHAPES = arrays.array_shapes(min_dims=0, min_side=0, max_dims=3, max_side=3)
ARRAYS = TYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES))
FEW = settings(max_examples=25)
"""Each example has many leaves."""
LEAVES: st.SearchStrategy[Leaf] = (SCALARS | ARRAYS).map(as_leaf)
