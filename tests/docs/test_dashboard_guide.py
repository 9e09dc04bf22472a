"""What the guide to the dashboard says is there: keys, marks, states, pages, pictures."""

from __future__ import annotations

import ast
import re

import pytest

from tests.places import ROOT

GUIDE = (ROOT / "docs" / "howto" / "dashboard.md").read_text()
IMAGES = ROOT / "docs" / "images"
SOURCES = ROOT / "viz" / "web" / "src"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_BYTES = 1_750_000


def listed(name: str) -> str:
    """The text of a list of ``keyhelp``."""
    source = (SOURCES / "app" / "model" / "keyhelp.ts").read_text()
    return re.search(rf"export const {name}\b.*?= (\[.*?\n\]);", source, re.DOTALL)[1]  # type: ignore[index]


def keys() -> list[tuple[str, str]]:
    """Each key with its text, as the help shows them."""
    groups: list[list[object]] = ast.literal_eval(listed("KEYS"))
    return [(key, text) for _, of_group in groups for key, text in of_group]  # type: ignore[attr-defined]


def test_the_guide_has_the_keys_of_the_help() -> None:
    documented = re.findall(r"^\| `([^`]+)` \| (.+) \|$", GUIDE, re.MULTILINE)
    assert documented == keys()


def test_states_stand_in_the_guide_as_on_the_page() -> None:
    source = (SOURCES / "shared" / "session" / "model" / "status.ts").read_text()
    signs = re.findall(r"^  (\w+): \['(.)', '([^']+)'\],$", source, re.MULTILINE)
    assert len(signs) >= 7
    for state, sign, name in signs:
        assert state == "connecting" or f"| {sign} {name} |" in GUIDE, state


def test_marks_of_the_help_are_in_the_guide() -> None:
    for mark, _ in ast.literal_eval(listed("MARKS")):
        assert mark in GUIDE or mark == "◎", mark


@pytest.mark.parametrize(
    "page", ["Overview", "Calls", "Timeline", "Flame graph", "Nodes", "Health", "Compare"]
)
def test_pages_of_the_guide_are_pages(page: str) -> None:
    assert f"'{page}'" in (SOURCES / "shared" / "address" / "model" / "trail.ts").read_text()
    assert page.lower() in GUIDE.lower()


def test_every_picture_is_shown_and_taken_by_the_script() -> None:
    shown = {name for path in DOCUMENTS for name in re.findall(r"images/([\w-]+)\.png", path.read_text())}
    assert shown == {path.stem for path in IMAGES.glob("*.png")}
    script = (ROOT / "docs" / "screenshots.py").read_text()
    for name in shown:
        assert f'"{name}"' in script or f"{name}.png" in script, name


def test_pictures_say_in_words_what_they_show() -> None:
    for words, name in re.findall(r"!\[([^\]]*)\]\(\.\./images/([^)]+)\)", GUIDE):
        assert len(words.split()) >= 5, name


def test_pictures_are_small() -> None:
    sizes = [path.stat().st_size for path in IMAGES.glob("*.png")]
    assert 0 < sum(sizes) < MOST_BYTES


def test_there_is_one_command_for_them() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^screenshots:.*\n\t.*docs/screenshots\.py$", makefile, re.MULTILINE)
