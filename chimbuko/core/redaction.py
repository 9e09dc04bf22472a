"""Command lines and variables as they may be kept: stores and archives are handed on, secrets are not."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable

PROGRAM_ONLY_VARIABLE = "CHIMBUKO_NO_COMMAND_LINE"
"""Environment variable that keeps all command lines out of what is stored, but for the program's name."""
REMOVED = "***"
"""Text that stands for a secret."""
SECRET_NAMES = ("TOKEN", "KEY", "SECRET", "PASS", "CREDENTIAL", "JWT", "AUTH", "COOKIE")
"""Words in the names of variables and options whose values are secrets."""
LEAST_LENGTH = 32
"""Least length of a word that is taken for a secret by its looks alone."""
LEAST_ENTROPY_BITS = 4.2
"""Least entropy, in bits a character, of such a word: names of files and functions have 3.6 to 4.1, sums in
hexadecimal digits 4 at most, and of 32 random letters and digits 99 in 100 have 4.2 or more."""

_ASSIGNED = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.-]*)(?P<sign>[=:])(?P<value>.+)", re.DOTALL)
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_OF_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")
_KNOWN = re.compile(
    r"(?:gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abp]-|AKIA|AIza)[\w-]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
)
"""Tokens that say by their beginning what they are."""
_RANDOM = re.compile(rf"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+_=-]{{{LEAST_LENGTH},}}")


def is_secret(name: str) -> bool:
    """Return whether the value of a variable or an option of this name is a secret."""
    return any(word in name.upper() for word in SECRET_NAMES)


def without_secrets(words: Iterable[str]) -> list[str]:
    """Return the words of a command line with ``***`` in place of what sounds, or looks, like a secret; only
    the first one where no more is to be kept.
    """
    if os.environ.get(PROGRAM_ONLY_VARIABLE):
        return list(words)[:1]
    kept: list[str] = []
    is_value = False
    for word in words:
        is_option = _OPTION.fullmatch(word) is not None
        kept.append(REMOVED if is_value and not is_option else without_secret(word))
        is_value = is_option and is_secret(word)
    return kept


def without_secret(word: str) -> str:
    """Return a word, or the value of a variable, with ``***`` in place of the secrets in it."""
    assigned = _ASSIGNED.fullmatch(word)
    if assigned is not None and is_secret(assigned["name"]) and not word.startswith("/"):
        return f"{assigned['name']}{assigned['sign']}{REMOVED}"
    word = _KNOWN.sub(REMOVED, _OF_URL.sub(rf"\1:{REMOVED}@", word))
    return _RANDOM.sub(
        lambda found: REMOVED if _entropy_bits(found[0]) >= LEAST_ENTROPY_BITS else found[0], word
    )


def _entropy_bits(text: str) -> float:
    """Return the entropy of a text's characters, in bits a character."""
    counts = Counter(text).values()
    return sum(-count / len(text) * math.log2(count / len(text)) for count in counts)
