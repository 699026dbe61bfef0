"""A figure of a link is declared once: a new one is at once wherever the others are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    figures_of,
)
from flowcontrol.link.monitoring.monitor import LinkMonitor

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "flowcontrol/link/monitoring/figures.py"
KINDS = (ChannelSnapshot, SenderSnapshot, ReceiverSnapshot)

NEW = """\
    doubled: int = figure(lambda c: 2 * c.consumed,
        "Twice what the receiver has consumed.", "buffers", "doubled_buffers", (10, "twice"))
    tripled = Derived(lambda one: 3 * one.consumed,
        "Thrice what the receiver has consumed.", "buffers", "tripled_buffers", (11, "thrice"))
"""

SHOWN = """
import sys, types
source = open(sys.argv[1]).read()
first = "    credit: int = figure("
assert source.count(first) == 1
name = "flowcontrol.link.monitoring.figures"
figures = sys.modules[name] = types.ModuleType(name)
exec(source.replace(first, sys.argv[3] + first), figures.__dict__)

from rich.console import Console
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.prometheus import LinkCollector
from flowcontrol.link.monitoring.table import render
from flowcontrol.link.monitoring.view import COLUMNS, rows_of
from scripts.link_reference import PAGES

snapshot = LinkMonitor(sys.argv[2]).snapshot()
Console(width=120).print(render([snapshot]))
print([dict(zip(COLUMNS, row, strict=True))["doubled"] for row in rows_of(snapshot)])
collector = LinkCollector()
collector.note([snapshot])
print([metric.documentation for metric in collector.collect() if "ed_buffers" in metric.name])
for table in PAGES["monitoring.md"].values():
    print(*(line for line in table() if "hat the receiver has consumed." in line), sep="\\n")
"""


def test_a_new_figure_is_in_the_table_the_view_the_metrics_and_the_manual(link):
    sender, receiver = link.sender(), link.receiver()
    sender.write({0: 100, 1: 20})
    receiver.take(), receiver.take()
    consumed = [channel.consumed for channel in LinkMonitor(link.path).snapshot().channels]
    assert any(consumed)
    command = [sys.executable, "-c", SHOWN, str(FIGURES), str(link.path), NEW]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    (head,) = (line for line in lines if line[:1] == ["ch"])
    assert head[-2:] == ["twice", "thrice"]
    rows = [line for line in lines if line and line[0] in "01" and len(line[0]) == 1]
    assert [row[-2:] for row in rows] == [[str(2 * own), str(3 * own)] for own in consumed]
    assert str([2 * own for own in consumed]) in done.stdout
    assert "'Twice what the receiver has consumed.', 'Thrice what" in done.stdout
    told = {
        "| twice | buffers | Twice what the receiver has consumed. |",
        "| doubled | bigint, buffers | Twice what the receiver has consumed. |",
        "| `flowcontrol_link_tripled_buffers` | Thrice what the receiver has consumed. |",
    }
    assert told <= set(done.stdout.splitlines())


def test_no_other_module_says_what_a_figure_means_or_is_called_in_prometheus():
    said = {
        text
        for kind in KINDS
        for one in figures_of(kind).values()
        for text in (one.meaning, one.metric)
        if text
    }
    for path in sorted(FIGURES.parent.parent.rglob("*.py")):
        if path != FIGURES:
            nodes = ast.walk(ast.parse(path.read_text()))
            found = {node.value for node in nodes if isinstance(node, ast.Constant)}
            assert not found & said - set(figures_of(ChannelSnapshot)), path.name
