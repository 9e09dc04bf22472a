"""Files of records are found in order of their steps, and read object by object in either layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.importing import recordfiles
from chimbuko.provenance.importing.recordfiles import NotJson, read_objects, record_files

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
OBJECTS = st.lists(
    st.dictionaries(TEXTS, TEXTS | st.integers(0, 2**64) | st.lists(TEXTS, max_size=3), max_size=4),
    max_size=8,
)


@given(objects=OBJECTS, indent=st.sampled_from([None, 0, 4]), is_ascii=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_list_and_lines_hold_the_same(
    objects: list[Any], indent: int | None, is_ascii: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordfiles, "_CHUNK", 7)
    numbered = list(enumerate(objects, 1))
    path = tmp_path / "anomalies.json"
    path.write_text(" \n" + json.dumps(objects, indent=indent, ensure_ascii=is_ascii) + "\n", "utf-8")
    assert list(read_objects(path)) == numbered
    lines = "".join(json.dumps(one, ensure_ascii=is_ascii) + "\n" for one in objects)
    path.write_text(lines, "utf-8")
    assert list(read_objects(path)) == numbered


def test_damage_in_a_line_costs_that_line_and_in_a_list_what_follows(tmp_path: Path) -> None:
    path = tmp_path / "anomalies.jsonl"
    path.write_text('{"a": 1}\n{"a": \n\n{"a": 3}\n')
    first, second, third = read_objects(path)
    assert (first, third) == ((1, {"a": 1}), (4, {"a": 3}))
    assert second[0] == 2
    assert isinstance(second[1], NotJson)
    path.write_text('[{"a": 1}, {"a": }, {"a": 3}]')
    first, second = read_objects(path)
    assert first == (1, {"a": 1})
    assert isinstance(second[1], NotJson)
    assert "what follows" in second[1].reason


def test_a_record_without_an_end_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordfiles, "_CHUNK", 16)
    monkeypatch.setattr(recordfiles, "_LONGEST", 64)
    path = tmp_path / "anomalies.json"
    path.write_text('[{"a": "' + 1000 * "x")
    ((_, value),) = read_objects(path)
    assert isinstance(value, NotJson)


@pytest.mark.parametrize("value", ["[" * 100_000 + "]" * 100_000, "9" * 10_000, '"' + 1000 * "x" + '"'])
@pytest.mark.parametrize("form", ['[{"a": VALUE}, {"a": 2}]', '{"a": VALUE}\n{"a": 2}\n'])
def test_what_exhausts_a_parser_is_one_record_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, value: str
) -> None:
    if "x" in value:
        monkeypatch.setattr(recordfiles, "_CHUNK", 16)
        monkeypatch.setattr(recordfiles, "_LONGEST", 64)
    path = tmp_path / "anomalies.json"
    path.write_text(form.replace("VALUE", value))
    (number, first), *_ = read_objects(path)
    assert number == 1 and isinstance(first, NotJson)
    assert len(first.reason) < 200 and "\n" not in first.reason


@pytest.mark.parametrize("form", ["[RECORD, 1]", "RECORD\n1\n"])
def test_half_of_a_character_becomes_a_question_mark_or_costs_its_line(tmp_path: Path, form: str) -> None:
    path = tmp_path / "anomalies.json"
    path.write_text(form.replace("RECORD", r'{"a\ud800": ["\udc00b", "\ud83d\ude00"]}'))
    (_, found), following = read_objects(path)
    assert following == (2, 1)
    assert isinstance(found, NotJson) or found == {"a?": ["?b", "😀"]}
    assert isinstance(found, NotJson) == (form[0] == "R")


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "0" / "0").mkdir(parents=True)
    (tmp_path / "0" / "0" / "1.anomalies.json").write_text("[]")
    for name in ("0/0/a", "0/0/b", "0/c"):
        (tmp_path / name).symlink_to(".")
    (tmp_path / "0" / "0" / "up").symlink_to(tmp_path)
    assert [file.path.name for file in record_files(tmp_path)] == ["1.anomalies.json"]
    deep = tmp_path
    for _ in range(1200):
        deep /= "d"
        deep.mkdir()
    (deep / "2.anomalies.json").write_text("[]")
    assert [file.path.name for file in record_files(tmp_path)] == ["1.anomalies.json", "2.anomalies.json"]
    # Whoever clears up behind tests goes no deeper than Python's stack.
    (deep / "2.anomalies.json").unlink()
    while deep != tmp_path:
        deep.rmdir()
        deep = deep.parent


def test_files_come_in_the_order_of_numbers(tmp_path: Path) -> None:
    names = (
        *("metadata.jsonl", "0/0/2.metadata.json", "0/0/2.anomalies.json", "0/0/2.normalexecs.json"),
        *("0/0/10.anomalies.json", "0/2/1.anomalies.json", "0/11/1.anomalies.json", "shard/anomalies.json"),
    )
    for name in (*reversed(names), "0/0/notes.json", "ad_model.json", "0/0/2.anomalies.json.bak"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("[]")
    found = [str(file.path.relative_to(tmp_path)) for file in record_files(tmp_path)]
    assert found == list(names)
    (one,) = record_files(tmp_path / "0/0/2.normalexecs.json")
    assert one.kind == "normalexecs"
    assert list(record_files(tmp_path / "0/0/notes.json")) == []


def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.json: cannot be read"):
        list(read_objects(tmp_path / "gone.json"))
