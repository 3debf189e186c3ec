"""tools/build_deb.py takes the maintainer from debian/control alone, and leaves packages of one version."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import build_deb
from build_deb import ROOT


def test_the_changelog_names_the_maintainer_of_the_control_file(tmp_path: Path) -> None:
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


def test_no_package_of_another_version_stays(tmp_path: Path) -> None:
    """`apt-get install ./dist/libhakmem0_*.deb` names each file that is there."""
    others = {
        "hakmem-tools_0.1.0_amd64.deb",
        "libhakmem0-dbgsym_0.1.0_amd64.deb",
        "libhakmem0_0.1.0_arm64.deb",
        "a.whl",
    }
    for name in (*others, "libhakmem0_0.1.0_amd64.deb"):
        (tmp_path / name).write_text("old")
    (tmp_path / "new").mkdir()
    product = tmp_path / "new/libhakmem0_0.2.0_amd64.deb"
    product.write_text("new")
    assert build_deb.keep(product, tmp_path).read_text() == "new"
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {*others, product.name}
