"""Event time in a look: the watermark of each channel, its lag, and who holds it back."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from flowcontrol.link.describing import describe
from flowcontrol.link.monitoring.bottleneck import describe_bottleneck
from flowcontrol.link.monitoring.figures import clock_time, moment
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.prometheus import LinkCollector
from flowcontrol.link.monitoring.table import fitting, render
from flowcontrol.link.monitoring.view import COLUMNS, rows_of
from flowcontrol.link.receiver import LinkReceiver

TIMED = {"event_time_column": "at", "exclusive_buffers": 2, "floating_buffers": 4}


def snapshot(link, clock):
    return LinkMonitor(link.path).snapshot(clock.now)


def text(found, width=80, most=None):
    console = Console(file=io.StringIO(), width=width)
    console.print(render([found], most))
    return console.file.getvalue()


def of(found, sender):
    return [channel for channel in found.channels if channel.sender == sender]


@pytest.fixture
def two(make_link, clock):
    """Return a link whose sender ``near`` is 10 s behind the clock and ``far`` 100 s."""
    link = make_link(watermark_delay_s=2.0, align_s=30.0, **TIMED)
    near, far, receiver = link.sender("near"), link.sender("far", "other"), link.receiver()
    near.write({0: 10, 1: 10}, latest_s=clock.now - 10)
    far.write({0: 10}, latest_s=clock.now - 100)
    clock.forward(1)
    receiver.take()
    clock.forward(1)
    receiver.take()
    link.near, link.far, link.reader = near, far, receiver
    return link


# ---------------------------------------------------------------------- figures


def test_without_event_time_there_is_nothing(link, clock):
    sender, receiver = link.sender(), link.receiver()
    sender.write({0: 10})
    receiver.take()
    found = snapshot(link, clock)
    (one, _), (reader,) = found.channels, found.receivers
    assert (found.event_time_column, found.align_s) == (None, None)
    assert (one.written_watermark_ms, one.watermark_ms, one.is_idle, one.is_paused) == (None,) * 4
    assert (reader.watermark_ms, reader.paused) == (None, ())
    assert "watermark" not in text(found)
    assert "watermark" not in json.dumps(describe(link.storage)["receivers"])


def test_a_watermark_is_the_latest_time_less_the_delay(two, clock):
    found = snapshot(two, clock)
    at = clock.now - 2
    near, far = of(found, "near"), of(found, "far")
    written = [one.written_watermark_ms for one in (*near, *far)]
    assert written == [round(1000 * (at - 12)) - 1] * 2 + [round(1000 * (at - 102)) - 1, None]
    assert [one.watermark_ms for one in (*near, *far)] == written  # all of it was consumed
    assert near[0].watermark_lag_s == pytest.approx(14.001)
    assert [one.watermark_behind_s for one in (*near, *far)] == [0, 0, 90, None]
    (reader,) = found.receivers
    assert (reader.watermark_ms, reader.watermark_lag_s) == (None, None)
    assert [one.holds_watermark for one in (*near, *far)] == [False, False, False, True]
    line = "main: no watermark yet, held by channel 1 of far; paused for being more than 30 s ahead"
    assert line in " ".join(text(found).split())


def test_what_was_written_and_not_read_is_not_the_receivers(two, clock):
    two.far.write({0: 10}, latest_s=clock.now)
    found = snapshot(two, clock)
    one = of(found, "far")[0]
    assert (one.written_watermark_ms, one.watermark_lag_s) == (
        round(1000 * (clock.now - 2)) - 1,
        pytest.approx(104.001),
    )


def test_without_a_receiver_there_is_what_was_written(make_link, clock):
    link = make_link(**TIMED)
    link.sender().write({0: 10}, latest_s=clock.now)
    first, second = snapshot(link, clock).channels
    assert first.written_watermark_ms == round(1000 * clock.now) - 1
    assert (second.written_watermark_ms, first.watermark_ms, first.is_idle) == (None, None, None)
    assert f"0     {clock_time(clock.now - 1)}          -    -       -" in text(
        snapshot(link, clock)
    )


def test_idle_channels_hold_nothing_back(two, clock):
    """Nobody commits meanwhile: the look finds it out by itself."""
    clock.forward(59)
    assert not any(one.is_idle for one in snapshot(two, clock).channels)
    clock.forward(1.01)
    found = snapshot(two, clock)
    assert all(one.is_idle for one in found.channels)
    assert "all channels are idle" in text(found)
    two.far.write({0: 10}, latest_s=clock.now - 150)
    found = snapshot(two, clock)
    near, far = of(found, "near"), of(found, "far")
    assert [one.is_idle for one in (*near, *far)] == [True, True, False, True]
    assert [one.holds_watermark for one in (*near, *far)] == [False, False, True, False]
    (reader,) = found.receivers
    assert reader.watermark_ms == far[0].watermark_ms
    assert "held by channel 0 of far" in text(found)


def test_a_sender_that_is_ahead_is_paused(two, clock):
    two.near.write({0: 40}, latest_s=clock.now)
    two.far.write({0: 10, 1: 10}, latest_s=clock.now - 90)
    clock.forward(1)
    assert two.reader.take() == 20  # of the sender that is behind
    two.reader.take()
    clock.forward(5)
    found = snapshot(two, clock)
    assert [one.is_paused for one in found.channels] == [True, True, False, False]
    (reader,) = found.receivers
    assert reader.paused == ("near",)
    assert reader.watermark_ms == of(found, "far")[0].watermark_ms
    assert sum(line.split()[-1:] == ["paused"] for line in text(found).splitlines()) == 2
    blocked = replace(
        found,
        channels=tuple(
            replace(one, blocked_ratio=0.9 * (one.sender == "near")) for one in found.channels
        ),
        senders=tuple(
            replace(one, blocked_ratio=0.9 * (one.name == "near")) for one in found.senders
        ),
    )
    assert describe_bottleneck([blocked]).startswith(
        "Bottleneck: sender far of orders, with align_s of 30 s the others wait for it: sender "
        "near was blocked 90 % of the last"
    )
    own = describe(two.storage)["receivers"][0]
    assert (own["paused_senders"], own["watermark_ms"]) == (["near"], reader.watermark_ms)


def test_a_restarted_receiver_goes_on_with_its_watermarks(two, clock):
    two.far.write({1: 10}, latest_s=clock.now - 95)
    two.reader.take()
    two.reader.take()
    before = snapshot(two, clock)
    assert before.receivers[0].watermark_ms is not None
    two.reader.own.ledger.close()
    again = LinkReceiver(two.storage, two.settings, "main", [0, 1], None)
    again.refresh()
    assert again.next(two.reader.at) == two.reader.at
    two.far.write({1: 10}, latest_s=clock.now - 200)  # late: it moves nothing
    again.refresh()
    again.next(again.next(two.reader.at))
    after = snapshot(two, clock)
    assert [one.watermark_ms for one in after.channels] == [
        one.watermark_ms for one in before.channels
    ]
    assert after.receivers[0].watermark_ms == before.receivers[0].watermark_ms


# ---------------------------------------------------------------------- where they are shown


def test_the_table_fits_on_80_columns(two, clock):
    lines = text(snapshot(two, clock)).splitlines()
    assert max(map(len, lines)) <= 80
    (head, *_) = [line for line in lines if line.startswith("ch  written to")]
    assert head.split() == ["ch", "written", "to", "watermark", "lag", "behind"]


def test_a_small_terminal_shows_the_channels_that_hold_it_back(make_link, clock):
    link = make_link(**{**TIMED, "channels": 8, "floating_buffers": 40})
    sender, receiver = link.sender(), link.receiver()
    for channel in range(8):
        sender.write({channel: 10}, latest_s=clock.now - (50 if channel == 5 else 10))
    receiver.take()
    receiver.take()
    lines = text(snapshot(link, clock), most=1).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("ch  written to"))
    assert lines[at + 1].split()[0] == "5"
    assert lines[at + 1].split()[-1] == "holds"
    assert len(lines) == at + 2
    console = Console(file=io.StringIO(), width=80, height=20)
    for height in (20, 26, 40):
        console.size = console.size._replace(height=height)
        shown = fitting([snapshot(link, clock)], console)
        assert len(console.render_lines(shown)) < height


def test_the_view_has_them(two, clock):
    found = snapshot(two, clock)
    names = list(COLUMNS)
    first = dict(zip(names, next(iter(rows_of(found))), strict=True))
    assert first["watermark_ms"] == found.channels[0].watermark_ms
    assert first["is_paused"] is True
    assert [COLUMNS[name] for name in ("watermark_ms", "watermark_lag_s", "is_paused")] == [
        "bigint", "double", "boolean"
    ]  # fmt: skip


def test_prometheus_has_them(two, clock):
    pytest.importorskip("prometheus_client")
    collector = LinkCollector()
    collector.note([snapshot(two, clock)])
    found = {
        (sample.name.removeprefix("flowcontrol_link_"), sample.labels["sender"],
         sample.labels["channel"]): sample.value
        for metric in collector.collect()
        for sample in metric.samples
        if "channel" in sample.labels
    }  # fmt: skip
    assert found["watermark_seconds", "near", "0"] == pytest.approx(clock.now - 14.001)
    assert found["watermark_lag_seconds", "far", "0"] == pytest.approx(104.001)
    assert found["watermark_behind_seconds", "far", "0"] == 90
    assert ("watermark_seconds", "far", "1") not in found
    assert found["channel_holds_watermark", "far", "1"] == 1
    assert (found["channel_paused", "near", "0"], found["channel_paused", "far", "0"]) == (1, 0)
    assert found["channel_idle", "far", "0"] == 0


@pytest.mark.parametrize("seconds", [0.0, -1e9, 1e11])
def test_a_moment_that_is_far_has_its_date(seconds):
    now = 1_800_000_000.0
    assert len(moment(seconds, now)) == 16
    assert moment(seconds, now)[4] == "-"
    assert moment(now - 3600, now) == clock_time(now - 3600)
    assert moment(9e15, now) == "9e+15 s"
