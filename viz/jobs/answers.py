"""Download of answers that workers left in a file: answers too large for an event, and files to be saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flask import Blueprint, Response, send_file

from chimbuko.viz.api.endpoint import Missing
from chimbuko.viz.api.openapi import ROOT
from chimbuko.viz.jobs.celeryapp import KEPT_S
from chimbuko.viz.jobs.queue import JOB


def make_answers(folder: Callable[[], Path | None]) -> Blueprint:
    """Return the blueprint that serves ``/api/v1/answers/<job>``: JSON, or a file under its name.

    Parameters
    ----------
    folder
        Gives the folder that jobs have their folders in; None before the first question.
    """
    answers = Blueprint("answers", __name__, url_prefix=f"{ROOT}/answers")

    @answers.get("/<job>")
    def answer(job: str) -> Response:
        place = folder()
        if place is not None and JOB.fullmatch(job):
            text = place / job / "answer.json"
            if text.is_file():
                return send_file(text, mimetype="application/json")
            for path in (place / job / "file").glob("*"):
                return send_file(path, as_attachment=True, download_name=path.name)
        raise Missing(f"answer {job[:40]!r}: not here any more; answers are kept for {KEPT_S} s. Ask again.")

    return answers
