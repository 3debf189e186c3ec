"""A program for `hakmem bench`: Python objects by the million: texts, counters, syntax trees, JSON, sorted lists,
cycles.

Prints one line that depends on nothing but the Python version. Takes how many rounds to go as its argument.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import random
import sys
from collections import Counter, defaultdict
from typing import Any, Dict, List

ROUNDS = 3


class Node:
    """A tree with references both ways: freed by the cycle collector alone."""

    __slots__ = ("children", "name", "parent")

    def __init__(self, name: str, parent: Node | None) -> None:
        self.name = name
        self.parent = parent
        self.children: List[Node] = []


def make_words(draw: random.Random) -> List[str]:
    return [f"w{draw.randrange(6000)}{'x' * draw.randrange(30)}" for _ in range(40_000)]


def index_words(words: List[str]) -> int:
    count = Counter(words)
    places: Dict[str, List[int]] = defaultdict(list)
    for place, word in enumerate(words):
        places[word[:4]].append(place)
    top = sorted(count.items(), key=lambda item: (-item[1], item[0]))[:500]
    return len(places) + sum(len(word) * times for word, times in top)


def walk_source(words: List[str]) -> int:
    source = "".join(
        f"def {word}(a, b={i}):\n    return [a + b * {i}, '{word}']\n\n" for i, word in enumerate(words[:2500])
    )
    return sum(1 for _ in ast.walk(ast.parse(source)))


def through_json(words: List[str]) -> int:
    record: Any = [
        {"id": i, "word": word, "tags": [word[:2], word[2:5]], "half": i / 2} for i, word in enumerate(words)
    ]
    again = json.loads(json.dumps(record))
    return len(json.dumps(again)) + len(again)


def build_trees(words: List[str]) -> int:
    root = Node("root", None)
    for word in words:
        node = root
        for letter in word[:6]:
            node = next((child for child in node.children if child.name == letter), None) or add_child(node, letter)
    return len(root.children)


def add_child(parent: Node, name: str) -> Node:
    parent.children.append(Node(name, parent))
    return parent.children[-1]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    draw = random.Random(1)
    digest = hashlib.sha256()
    for _ in range(rounds):
        words = make_words(draw)
        result = [index_words(words), walk_source(words), through_json(words), build_trees(words)]
        digest.update(repr(result).encode())
    gc.collect()
    print(f"{rounds} rounds, digest {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main()
