"""The files of packaging/monitoring: the tools that read them accept them.

docs/recipes/many-machines.md runs Prometheus with them, and tests/cli/test_metrics_all.py compares the names in their
queries with the served ones.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set

import pytest

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "packaging" / "monitoring"
TARGETS = "/run/hakmem/targets.json"
yaml = pytest.importorskip("yaml", reason="mkdocs brings it (tools/requirements.txt)")


def read(name: str) -> Dict[str, Any]:
    found: Dict[str, Any] = yaml.safe_load((MONITORING / name).read_text(encoding="utf-8"))
    return found


def promtool(*words: str, folder: Path = MONITORING) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool (package prometheus)")
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dashboard() -> Dict[str, Any]:
    found: Dict[str, Any] = json.loads((MONITORING / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def rules() -> List[Dict[str, Any]]:
    return [rule for group in read("hakmem.rules.yml")["groups"] for rule in group["rules"]]


def dashboard_queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


# Prometheus.


def test_rules() -> None:
    promtool("check", "rules", "hakmem.rules.yml")
    promtool("test", "rules", "hakmem.rules.test.yml")
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")


def test_each_rule_has_a_test() -> None:
    """One that fires or has a sample."""
    tests = read("hakmem.rules.test.yml")["tests"]
    alerts = {one["alertname"] for test in tests for one in test.get("alert_rule_test", []) if one["exp_alerts"]}
    queries = " ".join(one["expr"] for test in tests for one in test.get("promql_expr_test", []))
    for rule in rules():
        assert rule.get("alert") in alerts or rule.get("record", "?") in queries, rule


def test_a_rule_that_is_weakened_fails_its_test(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool (package prometheus)")
    text = (MONITORING / "hakmem.rules.yml").read_text()
    assert text.count("limit_ratio > 0.9") == 1
    (tmp_path / "hakmem.rules.yml").write_text(text.replace("limit_ratio > 0.9", "limit_ratio > 0.99"))
    shutil.copy(MONITORING / "hakmem.rules.test.yml", tmp_path)
    done = subprocess.run(["promtool", "test", "rules", "hakmem.rules.test.yml"], cwd=tmp_path, capture_output=True)
    assert done.returncode != 0 and b"HakmemNearLimit" in done.stdout + done.stderr


# Grafana.


def test_the_dashboard_is_as_grafanas_schema_has_it() -> None:
    """Grafana's own types read it and write it again: a field that they do not know would be lost."""
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason="grafana-foundation-sdk is missing")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    document = dashboard()
    again = json.loads(JSONEncoder().encode(models.Dashboard.from_json(document)))
    assert list(lost(document, again, "")) == []
    (document["panels"][0])["gridPosition"] = document["panels"][0].pop("gridPos")
    again = json.loads(JSONEncoder().encode(models.Dashboard.from_json(document)))
    assert list(lost(document, again, "")) == ["/panels/0/gridPosition"], "the check finds a field with a wrong name"


def lost(before: Any, after: Any, where: str) -> Iterator[str]:
    """Where `after` has less than `before`, or something else. Defaults that are added are no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{where}/{key}"
            else:
                yield from lost(value, after[key], f"{where}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{where}/{number}")
    elif before != after:
        yield where


def test_the_panels_have_room() -> None:
    """Each within the 24 columns, none over another, and their numbers are their own."""
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    taken: Set[Any] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        cells = {(x + place["x"], y + place["y"]) for x in range(place["w"]) for y in range(place["h"])}
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells


def test_queries_of_the_dashboard_parse(tmp_path: Path) -> None:
    """As rules, after Grafana's variables."""
    names = {"$__rate_interval": "5m", "$program": ".*", "$pid": ".*"}
    found = []
    for number, query in enumerate(dashboard_queries()):
        for name, value in names.items():
            query = query.replace(name, value)
        assert "$" not in query
        found.append({"record": f"query{number}", "expr": query})
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": found}]}))
    promtool("check", "rules", "rules.yml", folder=tmp_path)


# Parca, Pyroscope, OpenTelemetry.


def test_parca() -> None:
    (job,) = read("parca.yaml")["scrape_configs"]
    assert job["file_sd_configs"][0]["files"] == [TARGETS]
    profiles = job["profiling_config"]["pprof_config"]
    assert {name for name, one in profiles.items() if one["enabled"]} == {"memory"}
    assert profiles["memory"]["path"] == "/debug/pprof/heap"
    assert "scrape_timeout" not in job, "Parca refuses one up to the interval"


def test_pyroscope() -> None:
    """The references between the components; the one profile that is on."""
    text = (MONITORING / "pyroscope.alloy").read_text()
    components = {f"{kind}.{name}" for kind, name in re.findall(r'^([\w.]+) "(\w+)" \{$', text, re.MULTILINE)}
    used = re.findall(r"= \[?([\w.]+)\.(targets|output|receiver)\b", text)
    assert {name for name, _ in used} < components and len(used) == 3
    assert text.count("{") == text.count("}") and TARGETS in text
    kinds = dict(re.findall(r"profile\.(\w+) \{\s+enabled = (\w+)", text))
    assert [name for name, value in kinds.items() if value == "true"] == ["memory"] and len(kinds) == 5


def test_the_collector() -> None:
    """Its receiver's part is a configuration of Prometheus, and each pipeline names parts that exist."""
    collector = read("otel-collector.yaml")
    for pipeline in collector["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(collector[kind])


def test_the_collectors_receiver(tmp_path: Path) -> None:
    receiver = read("otel-collector.yaml")["receivers"]["prometheus"]["config"]
    (tmp_path / "prometheus.yml").write_text(json.dumps(receiver))
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml", folder=tmp_path)


def test_the_service(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze (package systemd)")
    text = (MONITORING / "hakmem-exporter.service").read_text()
    assert TARGETS in text and "RuntimeDirectory=hakmem\n" in text
    unit = tmp_path / "hakmem-exporter.service"
    unit.write_text(text.replace("/usr/bin/hakmem", "/bin/true").replace("Documentation=man:hakmem(1)\n", ""))
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Restart=on-failure", "Restart=perhaps"))
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True, check=False)
    assert "restart specifier" in done.stderr, "the check reads the unit"
