"""Files with the stories of processes."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from chimbuko.core.statemachine import Story
from chimbuko.runtime.process.lifetime import one_of_several
from chimbuko.runtime.process.storyfile import STORY_VARIABLE, last_steps, write_story


def told(*events: str) -> Story:
    story = Story()
    for number, event in enumerate(events):
        story.note(float(number), event, "nothing")
    return story


def test_a_story_replaces_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORY_VARIABLE, str(tmp_path / "pserver.story"))
    write_story(told("first"))
    write_story(told("second", "third"))
    (tmp_path / "pserver.log").write_text("no story")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["pserver.log", "pserver.story"]
    (lines,) = last_steps(tmp_path, 10).values()
    assert [line.split("  ")[-1] for line in lines[:-1]] == ["second: nothing", "third: nothing"]
    assert "written at 20" in lines[-1]
    assert last_steps(tmp_path, 2) == {"pserver": lines[-2:]}


def test_without_a_file_or_room_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STORY_VARIABLE, raising=False)
    write_story(told("first"))
    monkeypatch.setenv(STORY_VARIABLE, str(tmp_path / "gone" / "pserver.story"))
    write_story(told("first"))
    assert last_steps(tmp_path / "gone", 10) == {}
    (tmp_path / "broken.story").symlink_to(tmp_path / "gone")
    assert last_steps(tmp_path, 10) == {}


def test_services_that_share_a_process_have_a_story_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORY_VARIABLE, str(tmp_path / "services.story"))

    def tell(name: str) -> None:
        one_of_several.set(name)
        write_story(told(name))

    threads = [Thread(target=tell, args=(name,)) for name in ("pserver", "provenance")]
    for thread in threads:
        thread.start()
        thread.join()
    assert {name: lines[0].split()[-2] for name, lines in last_steps(tmp_path, 10).items()} == {
        "provenance": "provenance:",
        "pserver": "pserver:",
    }
