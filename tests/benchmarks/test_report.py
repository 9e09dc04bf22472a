"""The tables of documents are written by one command."""

from __future__ import annotations

import pytest

from benchmarks.report import DOCUMENTS, QUICKLY, ROOT, document_of, program_of, replaced


def find_program(program: str) -> bool:
    """A script, or a module or package that can be run."""
    path = ROOT / program
    module = ROOT / program.replace(".", "/")
    return path.is_file() or module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()


def test_a_table_is_replaced_and_nothing_else() -> None:
    document = (
        "before\n<!-- a: measured -->\nold\n<!-- a: end -->\nbetween\n<!-- b: measured -->\n<!-- b: end -->\n"
    )
    once = replaced(document, "a", "| new |")
    assert once == document.replace("\nold\n", "\n\n| new |\n\n")
    assert replaced(once, "a", "| new |") == once


def test_a_section_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="no markers of 'c'"):
        replaced("<!-- c: measured -->\n", "c", "")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_have_all_sections_and_these_have_a_quick_way(name: str) -> None:
    document = document_of(name).read_text()
    for section, command in DOCUMENTS[name].items():
        assert replaced(document, section, "") != document
        program = program_of(command)
        assert program in QUICKLY
        assert find_program(program)
        assert f"python {command}\n" in document
