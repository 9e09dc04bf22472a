"""Trees as texts for others, read again by plain means."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import Leaf, as_leaf, elements, is_same
from chimbuko.observe.namespaces.exchange.texts import (
    FORMATS,
    conduit_base64_json,
    conduit_json,
    plain,
    plain_json,
)
from chimbuko.observe.namespaces.exchange.texts import yaml as yaml_text
from chimbuko.observe.namespaces.exchange.tree import Tree, nested
from chimbuko.observe.namespaces.service.folder import format_addresses
from tests.observe.namespaces.strategies import FEW, LEAVES, PATHS

ASTAROTH = Tree(
    [
        (("pid",), np.uint32(4711)),
        (("timestep",), np.uint64(5)),
        (("local_mass",), 0.1),
        (("FIELD_0", "min", "value"), np.float32(0.1)),
        (("FIELD_0", "min", "location"), as_leaf(np.array([1, 2, 3], np.uint16))),
        (("FIELD_0", "nan", "value"), False),
        (("name",), 'a "b" \\n\nc'),
        (("empty",), as_leaf(np.zeros(0, np.int32))),
        (("yes",), "no"),
    ]
)


def test_plain_json_and_yaml_are_the_same_values() -> None:
    values = json.loads(plain_json(ASTAROTH))
    assert values["FIELD_0"] == {"min": {"value": 0.1, "location": [1, 2, 3]}, "nan": {"value": False}}
    assert values["name"] == 'a "b" \\n\nc'
    assert yaml.safe_load(yaml_text(ASTAROTH)) == values
    assert yaml.safe_load(yaml_text(Tree())) == {}


@FEW
@given(st.lists(st.tuples(PATHS, LEAVES), max_size=4))
def test_any_tree_is_yaml_and_json(leaves: list[Any]) -> None:
    tree = Tree(leaves)
    wanted = nested((path, plain(leaf)) for path, leaf in tree)
    assert json.loads(plain_json(tree)) == wanted
    # YAML of this parser takes 1e5 for a string, as YAML 1.1 does.
    assert str(wanted.keys()) == str(yaml.safe_load(yaml_text(tree)).keys())


def test_what_json_has_no_words_for_is_written_as_conduit_does() -> None:
    tree = Tree([(("a",), as_leaf([float("nan"), float("inf"), -float("inf"), 1.5]))])
    assert json.loads(plain_json(tree)) == {"a": ["nan", "inf", "-inf", 1.5]}


def test_conduit_json_has_the_type_of_each_leaf() -> None:
    typed = json.loads(conduit_json(ASTAROTH))
    assert typed["pid"] == {"dtype": "uint32", "number_of_elements": 1, "value": 4711}
    assert typed["FIELD_0"]["min"]["location"] == {
        "dtype": "uint16",
        "number_of_elements": 3,
        "value": [1, 2, 3],
    }
    assert typed["FIELD_0"]["nan"]["value"] == {"dtype": "uint8", "number_of_elements": 1, "value": 0}
    assert typed["name"]["dtype"] == "char8_str"
    # Conduit undoes escapes of its own in what JSON gives it.
    assert typed["name"]["value"] == 'a "b" \\\\n\nc'


def test_conduit_json_refuses_what_conduit_would_not_read() -> None:
    with pytest.raises(ObservationError, match=r"a/b: has a NaN .*; write conduit_base64_json"):
        conduit_json(Tree([(("a", "b"), float("nan"))]))
    for form in (conduit_json, conduit_base64_json):
        with pytest.raises(ObservationError, match=r"a/dtype: has the key 'dtype', .*; write json or yaml"):
            form(Tree([(("a", "dtype"), 1.0)]))


def is_finite(leaf: Leaf) -> bool:
    if isinstance(leaf, str):
        return True
    array = elements(leaf)
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


WITHOUT_TYPE = PATHS.filter(lambda path: "dtype" not in path)


@FEW
@given(st.lists(st.tuples(WITHOUT_TYPE, LEAVES.filter(is_finite)), max_size=4))
@example([(("C:\\",), as_leaf("C:\\")), (("next",), as_leaf('\\"'))])
def test_conduit_finds_the_ends_of_all_strings(leaves: list[Any]) -> None:
    tree = Tree(leaves)
    for form in (plain_json, conduit_json, conduit_base64_json):
        text = form(tree)
        assert len(ends_of_strings(text)) == len(re.findall(r'"(?:[^"\\]|\\.)*"', text)) * 2


def ends_of_strings(text: str) -> list[int]:
    """Where Conduit sees begin or end one: at each quote that is not behind a backslash."""
    return [at for at, one in enumerate(text) if one == '"' and text[at - 1] != "\\"]


def leaves_of(schema: Any, data: bytes) -> dict[str, Any]:
    """What Conduit does with a schema and bytes."""
    if "dtype" not in schema:
        return {key: leaves_of(part, data) for key, part in schema.items()}
    raw = data[schema["offset"] :][: schema["number_of_elements"] * schema["stride"]]
    if schema["dtype"] == "char8_str":
        assert raw[-1:] == b"\0"
        return raw[:-1].decode()  # type: ignore[return-value]
    return np.frombuffer(raw, schema["dtype"])  # type: ignore[return-value]


@FEW
@given(st.lists(st.tuples(WITHOUT_TYPE, LEAVES), max_size=4))
def test_conduits_schema_and_bytes_are_the_leaves(leaves: list[Any]) -> None:
    tree = Tree(leaves)
    whole = json.loads(conduit_base64_json(tree))
    again = leaves_of(whole["schema"], base64.b64decode(whole["data"]["base64"]))
    for path, leaf in tree:
        found: Any = again
        for key in path:
            found = found[key]
        if isinstance(leaf, str):
            assert found == leaf
        else:
            array = elements(leaf)
            array = array.astype(np.uint8) if array.dtype == bool else array
            assert is_same(as_leaf(found), as_leaf(array.reshape(-1)))


def test_the_default_is_somas() -> None:
    assert list(FORMATS) == ["yaml", "json", "conduit_json", "conduit_base64_json"]


def test_an_address_file_is_as_somas_servers_write_it() -> None:
    addresses = ["redis://node1:6400/0#a", "redis://node2:6400/0#b"]
    assert format_addresses(addresses) == "2\n0 redis://node1:6400/0#a\n1 redis://node2:6400/0#b\n"
