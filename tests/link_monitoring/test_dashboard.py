"""The Grafana dashboard and the alerts: whole, and made of metrics and labels that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from flowcontrol.link.monitoring.prometheus import METRICS

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "docs/grafana/flowcontrol.json").read_text())
ALERTS = ROOT / "docs/prometheus/alerts.yaml"
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
LABELS = {metric: set(labels) for metric, labels in METRICS.items()}


def shown():
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def alerting():
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def labels_of(expression):
    """Labels that an expression selects or groups by."""
    found = re.findall(r"(?:by|on) \(([^)]*)\)", expression)
    selected = re.findall(r"\{([^}]*)\}", expression)
    names = {name.strip() for part in found for name in part.split(",")}
    return names | {
        re.split(r"[=!]", one)[0].strip() for part in selected for one in part.split(",")
    }


@pytest.mark.parametrize("expression", [*shown(), *alerting()])
def test_an_expression_uses_metrics_and_labels_that_exist(expression):
    used = set(re.findall(r"flowcontrol_\w+", expression))
    assert used
    assert used <= set(LABELS)
    assert labels_of(expression) <= set.union(*(LABELS[name] for name in used))


def test_the_dashboard_is_whole():
    assert DASHBOARD["schemaVersion"] >= 39
    assert {"uid", "title", "templating", "time", "panels"} <= set(DASHBOARD)
    identities = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(identities)) == len(identities)
    places = []
    for panel in PANELS:
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["title"], "a panel has no title"
        assert panel["description"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        where = panel["gridPos"]
        assert where["x"] + where["w"] <= 24
        places += [(x, where["y"]) for x in range(where["x"], where["x"] + where["w"])]
    assert len(set(places)) == len(places), "panels overlap"
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource", "link"}
    used = set(re.findall(r"\$\{?(\w+)", " ".join(shown())))
    assert used <= variables


def test_legends_name_labels_that_the_expression_keeps():
    for panel in PANELS:
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            (metric,) = set(re.findall(r"flowcontrol_\w+", target["expr"]))
            kept = re.search(r"by \(([^)]*)\)", target["expr"])
            labels = set(kept[1].split(", ")) if kept else LABELS[metric]
            assert named <= labels, target


promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="needs Debian's prometheus")


def checked(*arguments, folder):
    done = subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@promtool
def test_prometheus_can_read_every_expression(tmp_path):
    assert "5 rules found" in checked("check", "rules", str(ALERTS), folder=tmp_path)
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$link", ".*")}
        for number, expression in enumerate(shown())
    ]
    groups = {"groups": [{"name": "panels", "rules": rules}]}
    (tmp_path / "panels.yaml").write_text(yaml.safe_dump(groups))
    found = checked("check", "rules", "panels.yaml", folder=tmp_path)
    assert f"{len(rules)} rules found" in found


@promtool
def test_alerts_come_when_they_should_and_none_while_a_receiver_starts(tmp_path):
    shutil.copy(ALERTS, tmp_path / "alerts.yaml")
    shutil.copy(Path(__file__).parent / "alerts_test.yaml", tmp_path / "test.yaml")
    checked("test", "rules", "test.yaml", folder=tmp_path)
