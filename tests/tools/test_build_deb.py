"""tools/build_deb.py takes the maintainer from debian/control alone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_changelog_names_the_maintainer_of_the_control_file(tmp_path: Path) -> None:
    specification = importlib.util.spec_from_file_location("build_deb", ROOT / "tools/build_deb.py")
    assert specification and specification.loader
    build_deb = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(build_deb)
    who = r"Some \\1 One <one@hakmem.test>".replace("\\\\", "\\")
    (tmp_path / "control").write_text(f"Source: hakmem\nMaintainer: {who}\nSection: libs\n")
    older = " -- Other <other@hakmem.test>  Mon, 01 Jan 2024 00:00:00 +0000\n"
    (tmp_path / "changelog").write_text(
        f"hakmem (2) x; y=z\n\n -- A <a@b.test>  Tue, 24 Nov 2026 06:00:00 +0000\n\n{older}"
    )
    build_deb.sign_by_maintainer(tmp_path)
    text = (tmp_path / "changelog").read_text()
    assert f"\n -- {who}  Tue, 24 Nov 2026 06:00:00 +0000\n" in text and text.endswith(older)


def test_the_maintainer_is_no_placeholder() -> None:
    """lintian refuses hosts that are for examples (bogus-mail-host)."""
    found = re.search(r"^Maintainer: (.+) <(\S+)@(\S+)>$", (ROOT / "debian/control").read_text(), re.MULTILINE)
    assert found and not re.search(r"(example|localhost|invalid|test)\b", found[3])
