"""Prometheus' text: what it says, and that it is as Prometheus wants it."""

from __future__ import annotations

import re
import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from flowcontrol.errors import LinkError
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.prometheus import METRICS, LinkCollector, serve


@pytest.fixture
def collector(link, clock):
    sender, receiver = link.sender(), link.receiver(target=2.0)
    clock.forward(1)
    sender.write({0: 100, 1: 20})
    receiver.take()
    clock.forward(1)
    receiver.take()
    clock.forward(2)
    collector = LinkCollector()
    collector.note([LinkMonitor(link.path).snapshot(clock.now)])
    return collector


def families(collector):
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def values(collector, name):
    name = f"flowcontrol_link_{name}"
    family = families(collector)[name.removesuffix("_total")]
    return {tuple(s.labels.values()): s.value for s in family.samples if s.name == name}


def test_figures_are_those_of_the_look(collector):
    (snapshot,) = collector.snapshots
    found = values(collector, "backlog_rows")
    assert len(found) == 2
    for channel in snapshot.channels:
        labels = {"link": "orders", "sender": "events", "receiver": "main"}
        key = {**labels, "channel": str(channel.channel)}
        (sample,) = [
            s for s in families(collector)["flowcontrol_link_backlog_rows"].samples
            if s.labels == key
        ]  # fmt: skip
        assert sample.value == channel.backlog_rows
    assert set(values(collector, "sender_rows_total").values()) == {120.0}
    assert set(values(collector, "sender_pool_size_buffers").values()) == {8.0}
    assert set(values(collector, "receiver_batch_target_seconds").values()) == {2.0}
    assert set(values(collector, "sender_blocked_ratio").values()) == {snapshot.blocked_ratio}


def test_every_metric_is_there_and_explained(collector):
    found = families(collector)
    assert {name.removesuffix("_total") for name in METRICS} == set(found)
    for name, family in found.items():
        assert len(family.documentation) > 15, name
        assert family.documentation.endswith("."), name
        expected = "counter" if f"{name}_total" in METRICS else "gauge"
        assert family.type == expected, name


def test_names_say_the_unit_as_prometheus_wants_it():
    units = "rows|bytes|seconds|buffers|messages|ratio|rows_per_second|rows_total"
    units += "|detached|starting|idle|paused|holds_watermark"  # 1 or 0
    for name in METRICS:
        assert re.fullmatch(rf"flowcontrol_link_[a-z_]+_({units})", name), name
        assert not re.search(r"_(ms|s|kb|milliseconds|count|pct)$", name), name
    assert len(set(METRICS)) == len(METRICS)


def test_what_is_not_known_is_absent(link, clock):
    link.sender().write({0: 100})
    clock.forward(1)
    collector = LinkCollector()
    collector.note([LinkMonitor(link.path).snapshot(clock.now)])
    assert list(values(collector, "drain_seconds").values()) == [0.0]  # channel 1, without backlog
    assert values(collector, "receiver_batch_seconds") == {}
    assert len(values(collector, "backlog_rows")) == 2


def test_a_channel_that_another_receiver_holds_is_not_blocked_by_this_one(link, clock):
    sender, fast = link.sender(), link.receiver("fast")
    link.receiver("slow").take()
    sender.write({0: 100})
    for _ in range(6):
        fast.take()
        clock.forward(1)
        sender.step()
    collector = LinkCollector()
    collector.note([LinkMonitor(link.path).snapshot(clock.now)])
    family = families(collector)["flowcontrol_link_blocked_ratio"]
    held = {s.labels["receiver"]: s.value for s in family.samples if s.labels["channel"] == "0"}
    assert held["fast"] == 0.0
    assert held[""] if "" in held else held["slow"] > 0.5


def test_before_the_first_look():
    assert all(not family.samples for family in families(LinkCollector()).values())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_it_is_served_on_the_loopback_and_ends(collector):
    port = free_port()
    stop = serve(collector, port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert "flowcontrol_link_backlog_rows{" in answer.read().decode()
        with pytest.raises(LinkError, match=f"port {port} of 127.0.0.1 cannot be served"):
            serve(collector, port)
    finally:
        stop()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


def test_the_package_is_named_where_it_is_missing(collector, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(LinkError, match=r"pip install .*\[metrics\]"):
        serve(collector, 9)
