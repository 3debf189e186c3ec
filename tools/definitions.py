"""Reads the .def files of src, as the compiler does: their calls of macros, with texts and numbers as arguments."""

from __future__ import annotations

import ast
import operator
import re
from typing import Mapping

UNITS = {"HK_KIB": 1 << 10, "HK_MIB": 1 << 20, "HK_GIB": 1 << 30, "HK_TIB": 1 << 40}
OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.LShift: operator.lshift}

# A comment, a string literal, a preprocessor line, or any other character: enough to tell code from the rest.
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|^[ \t]*#(?:\\\n|[^\n])*|.', re.DOTALL | re.MULTILINE)


class DefinitionError(Exception):
    """A .def file holds an expression that this program cannot read."""


def calls(text: str) -> list[tuple[str, list[str]]]:
    """Returns every `HK_NAME(argument, ...)` of a .def file, in order. An argument is its text without comments."""
    found: list[tuple[str, list[str]]] = []
    name, arguments, depth = "", [""], 0
    for match in TOKEN.finditer(text):
        token = match.group()
        if token.startswith(("/*", "//")) or token.lstrip().startswith("#"):
            continue
        if depth == 0:
            if token == "(":
                depth = 1
            else:
                name += token
            continue
        if token == "," and depth == 1:
            arguments.append("")
            continue
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth > 0:
            arguments[-1] += token
            continue
        found.append((name.strip(), [argument.strip() for argument in arguments]))
        name, arguments = "", [""]
    if depth or name.strip():
        raise DefinitionError(f"unfinished: {name.strip()}")
    return found


def literal(argument: str) -> str:
    """Returns the value of one or more adjacent C string literals."""
    parts = re.findall(r'"(?:\\.|[^"\\])*"', argument)
    if not parts or re.sub(r'"(?:\\.|[^"\\])*"', "", argument).strip():
        raise DefinitionError(f"not a string: {argument}")
    return "".join(ast.literal_eval(part) for part in parts)


def number(expression: str, names: Mapping[str, int] = UNITS) -> int:
    """Returns the value of a C expression of whole numbers, names, and + - * <<."""

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise DefinitionError(f"not a number: {expression}")

    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", expression)
    try:
        return value(ast.parse(plain, mode="eval").body)
    except SyntaxError as error:
        raise DefinitionError(f"not a number: {expression}") from error
