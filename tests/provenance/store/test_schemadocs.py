from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, inspect

from chimbuko.provenance.store.engine import open_for_reading, open_for_writing
from chimbuko.provenance.store.schemadocs import describe
from chimbuko.provenance.store.tables import SCHEMA


@pytest.fixture
def store(any_empty_url: str) -> Iterator[Engine]:
    open_for_writing(any_empty_url).dispose()
    engine = open_for_reading(any_empty_url)
    yield engine
    engine.dispose()


def test_every_table_view_and_column_has_a_meaning(store: Engine) -> None:
    described = {table.name: table for table in describe(store)}
    views = set(inspect(store).get_view_names())
    assert set(described) == set(SCHEMA.tables) | views
    for table in described.values():
        columns = {column["name"] for column in inspect(store).get_columns(table.name)}
        assert {column.name for column in table.columns} == columns
        assert [column.name for column in table.columns if not column.meaning] == []
        assert table.meaning
