"""Tokens stay the same, and are their owner's alone."""

from __future__ import annotations

from pathlib import Path

from chimbuko.runtime.runs.directory import kept_token, write_secret


def test_a_token_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = kept_token(path)
    assert len(token) >= 32 and path.stat().st_mode & 0o777 == 0o600
    assert kept_token(path) == token
    assert kept_token(path, "given") == "given" == kept_token(path)


def test_what_others_could_have_put_there_is_none(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "token", tmp_path / "elsewhere"
    path.write_text("planted")
    path.chmod(0o644)
    assert kept_token(path) != "planted" and path.stat().st_mode & 0o777 == 0o600
    write_secret(elsewhere, "planted")
    path.unlink()
    path.symlink_to(elsewhere)
    assert kept_token(path) != "planted"
    assert elsewhere.read_text() == "planted" and not path.is_symlink()


def test_where_none_can_be_kept_there_is_a_new_one_each_time(tmp_path: Path) -> None:
    path = tmp_path / "no such folder" / "token"
    assert kept_token(path) != kept_token(path)
