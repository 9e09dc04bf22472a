"""Docstrings stand alone when they are hovered."""

from __future__ import annotations

from pathlib import Path

from docs.counts import ROOT, Docstring, docstrings, sources


def test_each_docstring_of_the_product_stands_alone() -> None:
    texts = [text for path in sources() for text in docstrings(path)]
    assert len(texts) > 5_000
    bad = [
        (text.path.relative_to(ROOT).as_posix(), text.line, text.faults()) for text in texts if text.faults()
    ]
    assert bad == []


def test_riddles_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "riddles.py"
    path.write_text(
        '"""Of a thing."""\n\nLIMIT = 3\n"""or more;"""\n\n\nclass Thing:\n    """What ... is."""\n\n'
        '    name: str\n    """Name of the thing."""\n    size: int\n    """Its size,"""\n'
    )
    faults = {text.line: text.faults() for text in docstrings(path)}
    assert faults == {
        1: ["begins with Of"],
        4: ["begins with a small letter", "ends in a comma or semicolon"],
        8: ["holds an ellipsis"],
        11: [],
        13: ["ends in a comma or semicolon"],
    }
    assert Docstring(path, 1, "Sum of all…\n\nMore.").faults() == ["holds an ellipsis"]
    run_on = "Sum of all.\nMore."
    assert Docstring(path, 1, run_on).faults() == ["has no blank line after its first one"]
    again = "Sum of all. Errors are none.\n\nErrors are\nnone."
    assert Docstring(path, 1, again).faults() == ["says a sentence twice"]
