"""Where the objects of an array in JSON are, character by character."""

from __future__ import annotations


def objects(text: bytes) -> tuple[list[bytes], bool]:
    """The complete objects of what is inside an array, and whether that has ended."""
    found: list[bytes] = []
    depth, begin, in_string, is_escaped = 0, 0, False, False
    for at, byte in enumerate(text):
        character = chr(byte)
        if in_string:
            if is_escaped:
                is_escaped = False
            elif character == "\\":
                is_escaped = True
            elif character == '"':
                in_string = False
        elif depth and character == '"':
            in_string = True
        elif character in "{[" and (depth or character == "{"):
            begin = begin if depth else at
            depth += 1
        elif character in "}]" and depth:
            depth -= 1
            if not depth:
                found.append(text[begin : at + 1])
        elif character == "]":
            return found, True
    return found, False
