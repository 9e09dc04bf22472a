"""Publications as bytes: the same again, and no bytes that harm."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.errors import ObservationError
from chimbuko.observe.namespaces.exchange.leaves import Leaf, is_same
from chimbuko.observe.namespaces.exchange.paths import MOST_KEYS, Path
from chimbuko.observe.namespaces.exchange.tree import Change, Tree
from chimbuko.observe.namespaces.exchange.wire import (
    LARGEST_BYTES,
    VERSION,
    ForeignPublication,
    Publication,
    decode,
    decode_leaf,
    encode,
    encode_leaf,
)
from tests.observe.namespaces.strategies import FEW, LEAVES, PATHS


def published(leaves: Sequence[tuple[Path, Leaf]]) -> Publication:
    put, appended = Tree(leaves), Tree()
    for number, (path, leaf) in enumerate(list(put)):
        if number % 2:
            put.remove(path)
            appended.put(path, leaf)
    return Publication("client", 3, 7, 1_700_000_000_000_000, 5, Change(dict(put), dict(appended)))


def assert_same(one: Publication, other: Publication) -> None:
    assert msgspec.structs.replace(one, change=Change()) == msgspec.structs.replace(other, change=Change())
    assert Tree(one.change.put.items()) == Tree(other.change.put.items())
    assert Tree(one.change.appended.items()) == Tree(other.change.appended.items())


@FEW
@given(st.lists(st.tuples(PATHS, LEAVES), max_size=6))
def test_a_publication_is_decoded_as_it_was(leaves: list[tuple[Path, Leaf]]) -> None:
    publication = published(leaves)
    assert_same(decode(encode(publication)), publication)


@FEW
@given(LEAVES)
def test_a_leaf_that_is_kept_is_the_same_again(leaf: Leaf) -> None:
    again, time_us = decode_leaf(encode_leaf(leaf, 12))
    assert is_same(again, leaf) and time_us == 12


def test_numbers_on_the_wire_are_little_endian() -> None:
    data = encode(published([(("a",), np.array([1, 258], np.uint16))]))
    assert b"\x05\x01" + struct.pack("<I", 2) + b"\x01\x00\x02\x01" in data


def body(*fields: object, version: int = VERSION) -> bytes:
    return bytes((version,)) + msgspec.msgpack.encode(fields)


def deep(depth: int) -> dict[str, object]:
    group: dict[str, object] = {"leaf": 1}
    for _ in range(depth):
        group = {"g": group}
    return group


def extension(data: bytes, code: int = 1) -> bytes:
    return body("c", 0, 1, 0, 1, {"a": msgspec.msgpack.Ext(code, data)}, {})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "version 0"),
        (body("c", 0, 1, 0, 1, {}, {}, version=2), "it is of version 2 of publications, not 1"),
        (bytes((VERSION,)), "damaged"),
        (bytes((VERSION,)) + b"\x93\x01", "damaged"),
        (body("c", 0, 1, 0, 1, {}), "seven fields"),
        (body("", 0, 1, 0, 1, {}, {}), "no client"),
        (body("c" * 65, 0, 1, 0, 1, {}, {}), "no client"),
        (body("c", -1, 1, 0, 1, {}, {}), "numbers"),
        (body("c", True, 1, 0, 1, {}, {}), "numbers"),
        (body("c", 0, 1 << 63, 0, 1, {}, {}), "numbers"),
        (body("c", 0, 1, 0, 1, [], {}), "in no groups"),
        (body("c", 0, 1, 0, 1, {"a": None}, {}), "a: a NoneType is no value|a NoneType is no value"),
        (body("c", 0, 1, 0, 1, {"a": [1]}, {}), "a: a list is no value"),
        (body("c", 0, 1, 0, 1, {"a": b"x"}, {}), "a: a bytes is no value"),
        (body("c", 0, 1, 0, 1, {1: 1}, {}), "is a int; a key is a string"),
        (body("c", 0, 1, 0, 1, {"a": 1}, {"a": 1}), "inside of another one"),
        (body("c", 0, 1, 0, 1, {"a": 1}, {"a": {"b": 1}}), "inside of another one"),
        (body("c", 0, 1, 0, 1, deep(MOST_KEYS), {}), "keys, and may have 32"),
        (body("c", 0, 1, 0, 1, deep(400), {}), "keys, and may have 32"),
        (bytes((VERSION,)) + b"\x91" * 100_000, "damaged"),
        (bytes((VERSION,)) + b"\xdd\xff\xff\xff\xff", "damaged"),
        (extension(b"", 5), "extension of code 5"),
        (extension(b""), "no array"),
        (extension(b"\xff\x00"), "no array"),
        (extension(b"\x00\x09" + bytes(36)), "no array"),
        (extension(b"\x00\x02\x01"), "no array"),
        (extension(b"\x03\x01" + struct.pack("<I", 2) + bytes(8)), "no array"),
        (extension(b"\x00\x04" + struct.pack("<4I", *[0xFFFFFFFF] * 4)), "no array"),
        (extension(b"\x0a\x01" + struct.pack("<I", 1) + b"\x02"), "no array"),
        (bytes((VERSION,)) + bytes(LARGEST_BYTES), "may have 4,194,304"),
    ],
)
def test_what_is_no_publication_is_refused_in_one_line(data: bytes, why: str) -> None:
    with pytest.raises(ObservationError, match=why) as caught:
        decode(data)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_another_version_is_an_error_of_its_own() -> None:
    with pytest.raises(ForeignPublication):
        decode(body("c", 0, 1, 0, 1, {}, {}, version=9))
    with pytest.raises(ForeignPublication):
        decode_leaf(b"\x09")


def test_a_publication_that_is_too_large_is_not_sent() -> None:
    leaf = np.zeros(1 << 17)
    many = {(f"k{number}",): leaf for number in range(5)}
    with pytest.raises(ObservationError, match="may have 4,194,304; publish more often"):
        encode(Publication("c", 0, 1, 0, 1, Change(dict(many))))


def mutated(data: bytes, chance: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw))
        match chance.randrange(4):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                del raw[at : at + chance.randint(1, 8)]
            case 2:
                raw[at:at] = chance.randbytes(chance.randint(1, 8))
            case _:
                raw[at:at] = raw[at : at + chance.randint(1, 30)]
        if not raw:
            break
    return bytes(raw)


def fuzz(rounds: int, seed: int) -> int:
    """Decode damaged publications; returns how many were understood all the same."""
    chance = random.Random(seed)
    leaves: list[tuple[Path, Leaf]] = [
        (("a", "b"), np.arange(6.0).reshape(2, 3)),
        (("a", "c"), "text"),
        (("d",), np.uint16(7)),
        (("e",), 1.5),
        (("f", "g", "h"), True),
        (("i",), -5),
    ]
    whole = encode(published(leaves))
    understood = 0
    for _ in range(rounds):
        data = mutated(whole, chance)
        if chance.random() < 0.9:
            data = bytes((VERSION,)) + data[1:]
        try:
            publication = decode(data)
        except ObservationError as error:
            assert "\n" not in str(error)
            continue
        understood += 1
        # What was understood can be sent on, and is then the same.
        assert_same(decode(encode(publication)), publication)
    return understood


def test_damaged_publications_are_refused_or_understood() -> None:
    assert 0 < fuzz(2_000, 1) < 2_000


@pytest.mark.thorough
def test_many_damaged_publications_are_refused_or_understood() -> None:
    for seed in range(10):
        assert fuzz(20_000, 100 + seed) > 0
