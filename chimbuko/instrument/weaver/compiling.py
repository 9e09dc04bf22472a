"""Compilation of sources whose annotated functions are to be recorded."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.recorder.library import INCLUDE
from chimbuko.instrument.weaver.commandline import CommandLine
from chimbuko.instrument.weaver.definitions import SIGN

HEADER = str(INCLUDE / "chimbuko.h")
_SIGN_OF_CPLUSPLUS = b"namespace chimbuko"
_OF_CLANG = ("-Qunused-arguments",)
"""Option that keeps clang from warning of preprocessor options where there is nothing to preprocess."""
REMEDY = "pip install 'chimbuko[annotations]'"


def run(words: Sequence[str]) -> int:
    """Run a compiler; return its exit code.

    Where no source has annotated functions, or they cannot be recorded, which is one line on stderr, the
    compiler runs as if it had been called directly.

    Raises
    ------
    ConfigError
        The compiler does not exist.
    """
    if shutil.which(words[0]) is None:
        raise ConfigError(f"{words[0]}: no such program; name a compiler, as in 'chimbuko cc g++ …'")
    words = list(_expanded(words))
    command = CommandLine(words)
    with tempfile.TemporaryDirectory(prefix="chimbuko-cc-") as folder:
        woven, obstacles = {}, []
        for number, source in enumerate(command.sources):
            try:
                if (path := _woven(command, source, Path(folder, str(number)))) is not None:
                    woven[source] = str(path)
            except ConfigError as error:
                obstacles.append(f"{source}: annotated functions are not recorded: {error}")
        if woven:
            more = _OF_CLANG if _is_clang(command.compiler) else ()
            compiled = _captured(command.compiling(woven, more))
            if compiled.returncode == 0:
                sys.stderr.buffer.write(compiled.stderr)
                return _reported(0, obstacles)
            why = f"annotated functions are not recorded: {_first_error(compiled)}"
            obstacles += [f"{source}: {why}" for source in woven]
    if not obstacles:
        os.execvp(words[0], words)
    # Errors in the sources themselves are shown by this run.
    return _reported(subprocess.run(words).returncode, obstacles)


def _woven(command: CommandLine, source: str, folder: Path) -> Path | None:
    """Return the path of a preprocessed source that records its annotated functions; None if it has none.

    Raises
    ------
    ConfigError
        The source cannot be preprocessed or read, though it may have annotated functions.
    """
    preprocessed = _captured(command.preprocessing(source, ("-include", HEADER)))
    text = preprocessed.stdout
    if preprocessed.returncode:
        raise ConfigError(_first_error(preprocessed))
    if SIGN.encode() not in text:
        return None
    try:
        from chimbuko.instrument.weaver.definitions import annotated_definitions
        from chimbuko.instrument.weaver.insertion import Woven
    except ImportError as error:
        raise ConfigError(f"libclang is missing: {REMEDY}") from error
    is_cplusplus = _SIGN_OF_CPLUSPLUS in text
    path = folder / Path(source).with_suffix(".ii" if is_cplusplus else ".i").name
    folder.mkdir()
    path.write_bytes(text)
    woven = Woven(text, annotated_definitions(path, is_cplusplus, command.standard), is_cplusplus)
    for warning in woven.warnings:
        print(warning, file=sys.stderr)
    sys.stderr.buffer.write(preprocessed.stderr)
    path.write_bytes(woven.text)
    return path


def _reported(code: int, obstacles: Sequence[str]) -> int:
    """Print the obstacles, unless the compiler has failed: then its errors matter. Return its exit code."""
    for obstacle in obstacles if code == 0 else ():
        print(f"chimbuko: {obstacle}", file=sys.stderr)
    return code


def _expanded(words: Sequence[str]) -> Iterator[str]:
    """Yield words, with those in the file in place of a word ``@file``."""
    for word in words:
        found = None
        if word.startswith("@"):
            with suppress(OSError):
                found = shlex.split(Path(word[1:]).read_text())
        yield from [word] if found is None else _expanded(found)


def _captured(words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)


def _is_clang(compiler: Sequence[str]) -> bool:
    return b"clang" in _captured([*compiler, "--version"]).stdout


def _first_error(compiled: subprocess.CompletedProcess[bytes]) -> str:
    said = compiled.stderr.decode(errors="replace").splitlines()
    return next((line for line in said if "error" in line), "the compiler has failed").strip()
