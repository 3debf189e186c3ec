#!/usr/bin/env python3
"""`docker build` and `docker run` where no Docker daemon runs: the steps of a Dockerfile in a root file system.

    docker_root.py build -t NAME .                        makes ./.images/NAME
    docker_root.py run --rm [--memory=N] NAME [WORD...]   runs its CMD, or the words, in a control group with that limit

FROM is a clean root of that release (tests/packages/clean_root.py). COPY, RUN, ENV and CMD do what Docker's do, for the
plain forms that a Dockerfile of docs/recipes uses; anything else is an error.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "packages"))
import clean_root

IMAGES = Path(".images")
GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
LIMITS = ("memory.limit_in_bytes", "memory.max")
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def base(name: str) -> Path:
    """The clean root of that image's release."""
    found = re.fullmatch(r"debian:(\w+)(-slim)?", name)
    if not found:
        sys.exit(f"FROM {name}: only Debian's releases")
    try:
        return clean_root.base("debian", found[1])
    except clean_root.NoRoot as reason:
        sys.exit(str(reason))


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def steps(text: str) -> List[Tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", text)
    lines = [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def inside(root: Path, words: List[str], variables: Dict[str, str]) -> List[str]:
    """The command in that root, with these variables alone: they are the program's, not those of chroot."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    environment = [f"{name}={value}" for name, value in {"PATH": path, "HOME": "/root", **variables}.items()]
    shown = f'mount --rbind /sys {shlex.quote(str(root / "sys"))} && exec "$@"'
    spaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root / 'proc'}"]
    return [*spaces, "sh", "-c", shown, "sh", "chroot", str(root), "/usr/bin/env", "-i", *environment, *words]


def build(name: str) -> int:
    variables: Dict[str, str] = {}
    command: List[str] = []
    root = (IMAGES / name).absolute()
    for step, rest in steps(Path("Dockerfile").read_text()):
        if step == "FROM":
            IMAGES.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", "--reflink=auto", base(rest), root], check=True)
        elif step == "COPY":
            source, target = rest.split()
            copy(Path(source), root / target.lstrip("/"))
        elif step == "ENV":
            key, _, value = rest.partition("=")
            variables[key] = value
        elif step == "RUN":
            words = ["/bin/sh", "-c", rest]
            command_line = inside(root, words, {"DEBIAN_FRONTEND": "noninteractive", **variables})
            code = subprocess.run(command_line, stdin=subprocess.DEVNULL, check=False).returncode
            if code != 0:
                sys.exit(f"RUN {rest}: exit code {code}")
        elif step == "CMD":
            command = json.loads(rest)
        else:
            sys.exit(f"{step}: this test knows no such step")
    (IMAGES / f"{name}.json").write_text(json.dumps({"variables": variables, "command": command}))
    return 0


def limited(limit: str) -> Path:
    """Enters a control group of its own with that limit: of version 1, where that controls memory, or else 2."""
    parent, file = (GROUPS[0], LIMITS[0]) if GROUPS[0].is_dir() else (GROUPS[1], LIMITS[1])
    group = parent / f"hakmem-recipe-{os.getpid()}"
    group.mkdir()
    (group / file).write_text(str(int(limit[:-1]) * UNITS[limit[-1]]))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    return group


def leave(group: Path) -> None:
    (group.parent / "cgroup.procs").write_text(str(os.getpid()))
    group.rmdir()


def run(words: List[str]) -> int:
    limit = ""
    while words and words[0].startswith("--"):
        option = words.pop(0)
        limit = option.partition("=")[2] if option.startswith("--memory=") else limit
    name, *given = words
    image = json.loads((IMAGES / f"{name}.json").read_text())
    root = (IMAGES / name).absolute()
    group = limited(limit) if limit else None
    try:
        command_line = inside(root, given or image["command"], image["variables"])
        return subprocess.run(command_line, stdin=subprocess.DEVNULL, check=False).returncode
    finally:
        if group is not None:
            leave(group)


if __name__ == "__main__":
    if sys.argv[1] == "build" and sys.argv[2] == "-t" and sys.argv[4:] == ["."]:
        sys.exit(build(sys.argv[3]))
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2:]))
    sys.exit(f"usage: {__doc__}")
