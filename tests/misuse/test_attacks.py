"""The attacks of attacks.toml under the default library, or HAKMEM_TEST_LIBRARY: each ends as the manifest says.

`make test-rest` and `make attacks` run them under every variant of the library, several times.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import attacks
import pytest

BUILD = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", attacks.REPOSITORY / "build" / "release"))
FILE = Path(os.environ.get("HAKMEM_TEST_LIBRARY", BUILD / attacks.VARIANTS["default"]))
VARIANT = next(name for name, file in attacks.VARIANTS.items() if file == FILE.name)
LIBRARY = attacks.Subject(VARIANT, FILE)
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


def test_an_outcome_that_is_not_expected_is_noticed() -> None:
    """The runner does not take every outcome for the expected one."""
    attack = next(attack for attack in ATTACKS if attack.expected[VARIANT] in ({"reached"}, {"harmless"}))
    other = frozenset({"stopped", "hang"})
    wrong = attacks.Attack(attack.class_, attack.name, attack.size, "", {VARIANT: other})
    assert attacks.unexpected([wrong], attacks.run_all([wrong], [LIBRARY], BUILD, 1)) != []


def test_an_allocator_that_takes_no_part_keeps_its_results(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    for name, version, word in (("other", "1.2", "reached"), ("fast", "", "fault"), ("other", "1.3", "report")):
        found = {"double_free.at_once.24": {name: Counter({word: 1, "harmless": 2})}}
        file.write_text(attacks.with_earlier(file, found, [attacks.Subject(name, None, version)], 3))
    written = json.loads(file.read_text())
    assert list(written["subjects"]) == ["fast", "other"] and written["subjects"]["other"]["version"] == "1.3"
    kept = {"fast": {"fault": 1, "harmless": 2}, "other": {"report": 1, "harmless": 2}}
    assert written["results"] == {"double_free.at_once.24": kept}
    found = {"double_free.delayed.24": {"fast": Counter({"fault": 3})}}
    text = attacks.with_earlier(file, found, [attacks.Subject("fast", None)], 3)
    assert list(json.loads(text)["subjects"]) == ["fast"], "results of other attacks are not kept"
