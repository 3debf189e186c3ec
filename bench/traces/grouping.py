"""The script of python.trace.gz, which records it from the interpreter's start to its end."""

from __future__ import annotations

lines = [f"name{i * 7919 % 397} {i} {i / 4}" for i in range(650)]
groups: dict[str, list[tuple[int, float, str]]] = {}
for line in lines:
    name, number, share = line.split()
    groups.setdefault(name, []).append((int(number), float(share), line[:9]))
print(len(",".join(sorted(groups))), sum(len(group) for group in groups.values()))
