"""The sentences of a file that people read: a document without its code, or a source's comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize

C_SUFFIXES = (".c", ".h", ".cc", ".cpp", ".hpp", ".def")


def without_code(markdown: str) -> list[str]:
    """The lines of a document, those of code blocks empty."""
    lines, is_code = [], False
    for line in markdown.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_code = is_code != is_fence
        lines.append("" if is_code or is_fence else line)
    return lines


C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'", re.DOTALL)


def c_prose(text: str, has_texts: bool) -> list[str]:
    """The comments, each at its line; for tables of texts the strings too."""
    kept = [" " if character != "\n" else "\n" for character in text]
    for found in C_TOKEN.finditer(text):
        if found[0].startswith("/") or (has_texts and found[0].startswith('"')):
            kept[found.start() : found.end()] = text[found.start() : found.end()]
    return "".join(kept).splitlines()


def python_prose(text: str) -> list[str]:
    """The comments and the docstrings."""
    lines = [""] * (text.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            string = node.body[0]
            for number in range(string.lineno - 1, string.end_lineno or string.lineno):
                lines[number] = text.splitlines()[number]
    return lines


def prose(file: str, text: str) -> list[str]:
    """The sentences of a file, at the lines where they stand; the other lines are empty."""
    if file.endswith(".md"):
        return [re.sub(r"`[^`]*`|\]\([^)]*\)", "`", line) for line in without_code(text)]
    if file.endswith(C_SUFFIXES):
        return c_prose(text, file.endswith(".def"))
    if file.endswith(".py"):
        return python_prose(text)
    return [line if line.lstrip().startswith("#") else "" for line in text.splitlines()]
