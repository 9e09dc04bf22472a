"""Compilation of sources whose annotated functions are to be recorded."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations.pointcuts import SIGN
from chimbuko.instrument.recorder.library import INCLUDE

# Command line of a compiler: the sources that it compiles, and the same compilation in two steps. No I/O.


SUFFIXES = (".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP")
_WITH_VALUE = frozenset(
    (
        *("-o", "-I", "-D", "-U", "-L", "-l", "-include", "-imacros", "-isystem", "-iquote", "-idirafter"),
        *("-iprefix", "-iwithprefix", "-isysroot", "--sysroot", "-MF", "-MT", "-MQ", "-x", "-T", "-u", "-z"),
        *("-e", "-A", "-B", "-Xlinker", "-Xpreprocessor", "-Xassembler", "-Xclang", "-mllvm", "-target"),
        *("--param", "-arch", "-dumpbase", "-dumpdir", "-aux-info", "-wrapper", "-specs"),
    )
)
_NO_COMPILATION = frozenset(("-E", "-M", "-MM", "-fsyntax-only", "-x", "-", "-###", "-v", "--version"))
"""Options with which the compiler writes no code, or reads something else than named sources."""
_DEPENDENCIES = ("-MD", "-MMD", "-MP", "-MG", "-MF", "-MT", "-MQ", "-Wp,")
"""Options that ask for the dependencies of a source, which the preprocessor writes."""
_INCLUDED = ("-include", "-imacros")
_TO_BEGIN_WITH = ("-c", "-S", "-o")


@dataclass(frozen=True)
class Option:
    """Option with its value, or an input."""

    words: tuple[str, ...]
    """One word, or two."""

    @property
    def is_input(self) -> bool:
        """Whether the argument is an input: a source or another file."""
        return not self.words[0].startswith("-")

    def is_any(self, names: Sequence[str]) -> bool:
        """Return whether the argument is one of these options, even with its value in the same word."""
        return not self.is_input and self.words[0].startswith(tuple(names))


class CommandLine:
    """Command line of a compiler.

    Parameters
    ----------
    words
        Compiler and its arguments.
    """

    def __init__(self, words: Sequence[str]) -> None:
        count = next((at for at, word in enumerate(words) if at and _is_argument(word)), len(words))
        self.compiler = list(words[:count])
        """Words of the compiler; it may follow others, as in ``ccache gcc``."""
        self._options = list(_options(words[count:]))

    @property
    def sources(self) -> list[str]:
        """Sources that the command line compiles; empty if it asks for something else."""
        if any(option.words[0] in _NO_COMPILATION for option in self._options):
            return []
        return [option.words[0] for option in self._options if _is_source(option)]

    @property
    def standard(self) -> str:
        """Option ``-std=``, with its value; empty if there is none."""
        given = [option.words[0] for option in self._options if option.words[0].startswith("-std=")]
        return given[-1] if given else ""

    def preprocessing(self, source: str, more: Sequence[str]) -> list[str]:
        """Return the command that preprocesses one source to the standard output.

        Parameters
        ----------
        more
            Further options.
        """
        kept = [
            word
            for option in self._options
            if not option.is_input and option.words[0] not in _TO_BEGIN_WITH and not _joined(option, "-o")
            for word in option.words
        ]
        return [*self.compiler, *kept, *self._dependencies(source), *more, "-E", source]

    def compiling(self, preprocessed: Mapping[str, str], more: Sequence[str]) -> list[str]:
        """Return the command that compiles preprocessed sources.

        Parameters
        ----------
        preprocessed
            Paths of the preprocessed sources, by source; others are compiled as they are.
        """
        words = []
        for option in self._options:
            if option.is_input:
                words.append(preprocessed.get(option.words[0], option.words[0]))
            elif not option.is_any(_DEPENDENCIES) and option.words[0] not in _INCLUDED:
                words += option.words
        return [*self.compiler, *words, *more]

    def _dependencies(self, source: str) -> Iterator[str]:
        """Yield options for the file of dependencies and its target, unknown to the preprocessor."""
        names = {option.words[0][:3] for option in self._options}
        if not any(option.words[0] in ("-MD", "-MMD") for option in self._options):
            return
        output = self._output() or os.path.splitext(os.path.basename(source))[0] + ".o"
        if "-MF" not in names:
            yield from ("-MF", os.path.splitext(output)[0] + ".d")
        if not names & {"-MT", "-MQ"}:
            yield from ("-MT", output)

    def _output(self) -> str:
        for option in self._options:
            if option.words[0] == "-o":
                return option.words[-1]
            if _joined(option, "-o"):
                return option.words[0][2:]
        return ""


def _is_argument(word: str) -> bool:
    return word.startswith("-") or "." in os.path.basename(word)


def _options(words: Sequence[str]) -> Iterator[Option]:
    rest = iter(words)
    for word in rest:
        value = next(rest, None) if word in _WITH_VALUE else None
        yield Option((word,) if value is None else (word, value))


def _is_source(option: Option) -> bool:
    return option.is_input and os.path.splitext(option.words[0])[1] in SUFFIXES


def _joined(option: Option, name: str) -> bool:
    """Whether it is an option with its value in the same word."""
    return len(option.words) == 1 and option.words[0].startswith(name) and len(option.words[0]) > len(name)


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
