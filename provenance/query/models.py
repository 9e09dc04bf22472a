"""What the detector knew of functions, in the versions that were kept."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from sqlalchemy import and_, func, select

from chimbuko.provenance.query.reader import RunReader
from chimbuko.provenance.store.tables import FUNCTIONS, MODELS
from chimbuko.runtime.protocol.messages import FunctionModel


class Models:
    """The kept models of a run."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader

    def at(self, program: int, function: str, version: int) -> FunctionModel | None:
        """What the detector knew of a function in a version of the global model.

        That is the newest that was kept up to then: one is kept each time that a function has learned much.
        """
        model = MODELS.c
        statement = (
            select(model.version, model.model)
            .where(
                model.run == self._reader.run,
                model.function == self._reader.function_number(program, function),
                model.version <= version,
            )
            .order_by(model.version.desc())
            .limit(1)
        )
        rows = self._reader.rows(statement)
        if not rows:
            return None
        return FunctionModel(rows[0].version, program, function, zlib.decompress(rows[0].model))

    def newest(self) -> list[FunctionModel]:
        """The newest model of each function, by program and name."""
        model, function = MODELS.c, FUNCTIONS.c
        newest = (
            select(model.function, func.max(model.version).label("version"))
            .where(model.run == self._reader.run)
            .group_by(model.function)
            .subquery()
        )
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(
                MODELS, newest, and_(newest.c.function == model.function, newest.c.version == model.version)
            )
            .join(FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._reader.run)
            .order_by(function.program, function.name)
        )
        return [
            FunctionModel(version, program, name, zlib.decompress(packed))
            for version, program, name, packed in self._reader.rows(statement)
        ]

    def all(self, at_once: int = 1000) -> Iterator[FunctionModel]:
        """All models that were kept, by program, name and version."""
        model, function = MODELS.c, FUNCTIONS.c
        statement = (
            select(model.version, function.program, function.name, model.model)
            .join_from(MODELS, FUNCTIONS, and_(function.run == model.run, function.number == model.function))
            .where(model.run == self._reader.run)
            .order_by(function.program, function.name, model.version)
        )
        with self._reader.connected() as connection:
            for rows in connection.execute(statement).partitions(at_once):
                for version, program, name, packed in rows:
                    yield FunctionModel(version, program, name, zlib.decompress(packed))
