"""Models as files: what was saved is loaded, and what cannot be used is refused in one line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.config import DETECTORS, METRICS, AnalysisConfig
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.model import FORMAT, Model, joined_models, load_model, save_model
from chimbuko.core.statistics.schema import schema_of

FUNCTIONS = [("heat", "main"), ("heat", "größe [{a.c} {1,0}]"), ("viz", "main")]


def made(detector: str, metric: str = "exclusive") -> Model:
    table = schema_of(detector).empty(len(FUNCTIONS))
    table[:, 0] = [3.0, 5.0, 7.0]
    table[1, -3:] = [1.0, 0.0, 2.5]
    return Model(detector, metric, FUNCTIONS, table)


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("metric", METRICS)
def test_a_saved_model_is_loaded(tmp_path: Path, detector: str, metric: str) -> None:
    save_model(tmp_path / "model", made(detector, metric))
    loaded = load_model(tmp_path / "model", AnalysisConfig(detector=detector, metric=metric))
    assert (loaded.detector, loaded.metric, loaded.functions) == (detector, metric, FUNCTIONS)
    np.testing.assert_array_equal(loaded.table, made(detector).table)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_of_nothing_is_loaded(tmp_path: Path) -> None:
    save_model(tmp_path / "model", Model("robust", "exclusive", [], schema_of("robust").empty(0)))
    assert load_model(tmp_path / "model", AnalysisConfig()).functions == []


@given(
    st.lists(
        st.dictionaries(st.sampled_from(FUNCTIONS), st.integers(0, 50), max_size=3), min_size=1, max_size=4
    )
)
def test_of_several_models_each_function_is_taken_from_where_most_of_its_calls_are(
    parts: list[dict[tuple[str, str], int]],
) -> None:
    schema = schema_of("robust")
    models = []
    for calls in parts:
        table = schema.empty(len(calls))
        table[:, schema.slices["exclusive_us"].start] = list(calls.values())
        models.append(Model("robust", "exclusive", list(calls), table))
    whole = joined_models(models)
    assert whole.functions == sorted(set().union(*parts))
    assert whole.table.shape == (len(whole.functions), schema.width)
    assert whole.table[:, schema.slices["exclusive_us"].start].tolist() == [
        max(calls.get(function, 0) for calls in parts) for function in whole.functions
    ]


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (AnalysisConfig(detector="sstd"), "for --detector robust --metric exclusive; not for sstd"),
        (AnalysisConfig(metric="inclusive"), "not for robust and inclusive"),
    ],
)
def test_a_model_of_another_kind_is_refused(tmp_path: Path, config: AnalysisConfig, error: str) -> None:
    save_model(tmp_path / "model", made("robust"))
    with pytest.raises(ConfigError, match=error):
        load_model(tmp_path / "model", config)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "model", made("robust"))
    content = msgspec.msgpack.decode((tmp_path / "model").read_bytes())
    content["columns"][-1][1] += 8
    (tmp_path / "model").write_bytes(msgspec.msgpack.encode(content))
    with pytest.raises(ConfigError, match="learn it anew"):
        load_model(tmp_path / "model", AnalysisConfig())


@pytest.mark.parametrize(
    ("format_", "error"),
    [
        (FORMAT + 1, f"a model of format {FORMAT + 1}; update chimbuko"),
        (FORMAT - 1, "made by an earlier version of chimbuko; learn it anew"),
    ],
)
def test_another_format_is_refused_whatever_else_it_holds(tmp_path: Path, format_: int, error: str) -> None:
    (tmp_path / "model").write_bytes(msgspec.msgpack.encode({"format": format_, "rows": 3}))
    with pytest.raises(ConfigError, match=error):
        load_model(tmp_path / "model", AnalysisConfig())


def test_a_damaged_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    save_model(tmp_path / "model", made("robust"))
    content = (tmp_path / "model").read_bytes()
    for size in range(0, len(content), 7):
        (tmp_path / "model").write_bytes(content[:size])
        with pytest.raises(ConfigError, match="not a model, or damaged"):
            load_model(tmp_path / "model", AnalysisConfig())


@pytest.mark.parametrize("field", ["narrow", "cells", "values", "functions"])
def test_arrays_that_do_not_fit_together_are_refused(tmp_path: Path, field: str) -> None:
    save_model(tmp_path / "model", made("robust"))
    content = msgspec.msgpack.decode((tmp_path / "model").read_bytes())
    if field == "functions":
        content["functions"].pop()
    else:
        place = ["rows", "narrow", "cells", "values"].index(field)
        content["table"][place] = content["table"][place][8:]
    (tmp_path / "model").write_bytes(msgspec.msgpack.encode(content))
    with pytest.raises(ConfigError, match="damaged"):
        load_model(tmp_path / "model", AnalysisConfig())


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the model cannot be written"):
        save_model(tmp_path / "none" / "model", made("sstd"))
