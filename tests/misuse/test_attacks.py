"""The attacks of attacks.toml under the default library: each ends as the manifest says.

`make test-rest` and `make attacks` run them under every variant of the library, several times.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import attacks
import pytest

BUILD = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", attacks.REPOSITORY / "build" / "release"))
LIBRARY = attacks.Subject("default", BUILD / attacks.VARIANTS["default"])
ATTACKS = attacks.attacks()
CLASSES = sorted({attack.class_ for attack in ATTACKS})

pytestmark = pytest.mark.skipif(
    os.environ.get("HAKMEM_TEST_LIBC") == "musl", reason="the manifest describes programs of glibc"
)


@pytest.mark.parametrize("class_,name", sorted({(attack.class_, attack.name) for attack in ATTACKS}))
def test_ends_as_expected(class_: str, name: str) -> None:
    assert LIBRARY.library is not None and LIBRARY.library.is_file()
    sizes = [attack for attack in ATTACKS if (attack.class_, attack.name) == (class_, name)]
    assert attacks.unexpected(sizes, attacks.run_all(sizes, [LIBRARY], BUILD, 1)) == []


@pytest.mark.parametrize("class_", CLASSES)
def test_every_attack_of_a_program_is_in_the_manifest(class_: str) -> None:
    source = (attacks.FOLDER / f"attack_{class_}.c").read_text(encoding="utf-8")
    names = set(re.findall(r'\{"(\w+)", \w+\}', source))
    assert names == {attack.name for attack in ATTACKS if attack.class_ == class_}


def test_every_program_is_run() -> None:
    assert {file.stem for file in attacks.FOLDER.glob("attack_*.c")} == {f"attack_{class_}" for class_ in CLASSES}


def test_the_collection_is_large() -> None:
    assert len(ATTACKS) == len({str(attack) for attack in ATTACKS}) >= 120


def test_an_attack_that_is_reached_is_noticed() -> None:
    """The runner does not take every outcome for the expected one."""
    attack = next(attack for attack in ATTACKS if attack.expected["default"] == {"reached"})
    wrong = attacks.Attack(attack.class_, attack.name, attack.size, "", {"default": frozenset({"stopped", "harmless"})})
    assert attacks.unexpected([wrong], attacks.run_all([wrong], [LIBRARY], BUILD, 1)) != []
