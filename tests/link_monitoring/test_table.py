"""What a look is in a terminal: which figures stand where, and that they fit."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from flowcontrol.link.monitoring.figures import count, size
from flowcontrol.link.monitoring.monitor import LinkMonitor
from flowcontrol.link.monitoring.table import render


def text(snapshots, width=80, most=None, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(render(snapshots, most))
    return console.file.getvalue()


def cells(output, first):
    """Return the cells of the line that begins with a word."""
    (line,) = [line for line in output.splitlines() if line.split("  ")[0].strip() == first]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.fixture
def snapshots(make_link, clock):
    """A chain of two links, the second of which is slow."""
    found = []
    for name, takes in (("orders", 1), ("enriched", 1)):
        link = make_link(name, buffer_bytes=1 << 20)
        sender, receiver = link.sender("events"), link.receiver(target=2.0)
        clock.forward(1)
        sender.write({0: 12_345, 1: 8}, row_bytes=1024)  # of the second all fit in a first batch
        receiver.take()
        for _ in range(takes):
            clock.forward(2)
            receiver.take()
            sender.step()
        clock.forward(3)
        found.append(LinkMonitor(link.path).snapshot(clock.now))
    return found


def test_the_sentence_stands_above_the_links(snapshots):
    lines = text(snapshots).splitlines()
    assert lines[0].startswith("Bottleneck: the stage that reads")
    heads = [line.split()[0] for line in lines if "last " in line and ":" in line.split()[1]]
    assert heads == ["orders", "enriched"]


def test_a_long_name_gives_way_to_the_figures(snapshots):
    own = snapshots[0]
    (reader,) = own.receivers
    long = replace(own, receivers=[replace(reader, name="audit-of-the-finance-department-in-rome")])
    short = text([own]).splitlines()
    (line,) = [line for line in text([long]).splitlines() if line.startswith("→ audit")]
    assert len(line) <= 80
    (before,) = [line for line in short if line.startswith("→ main")]
    assert line.split("…", 1)[1].split() == before.split()[2:]  # every figure whole
    assert "in-rome" in text([long], width=120)


def test_members(snapshots):
    output = text(snapshots[:1])
    assert cells(output, "events →") == [
        "events →", "2.47k", "2.4 MiB", "10/12", "HIGH 83 %", "5 s"
    ]  # fmt: skip
    (reader,) = snapshots[0].receivers
    rows, nbytes = count(reader.rows_per_s), size(reader.bytes_per_s)
    pool = f"{reader.pool_used}/8"
    assert cells(output, "→ main") == [
        "→ main", rows, nbytes, pool, ">3 s/2 s", "busy 83 %", "3 s"
    ]  # fmt: skip


def test_no_verdict_before_the_first_batch_has_ended(make_link, clock):
    link = make_link("orders", buffer_bytes=1 << 20)
    sender, receiver = link.sender("events"), link.receiver(target=2.0)
    sender.write({0: 12_345, 1: 20}, row_bytes=1024)
    receiver.take()
    clock.forward(3)
    output = text([LinkMonitor(link.path).snapshot(clock.now)])
    assert output.startswith("Starting: receiver main of orders has not ended its first batch, so")
    assert cells(output, "events →")[-2:] == ["blocked 100 %", "3 s"]
    assert cells(output, "→ main")[-3:] == [">3 s/2 s", "starting", "3 s"]
    assert [cells(output, name)[-1] for name in ("0", "1", "all")] == ["starting"] * 3
    assert "HIGH" not in output
    receiver.take()
    sender.step()
    clock.forward(1)
    receiver.take()
    output = text([LinkMonitor(link.path).snapshot(clock.now)])
    assert output.startswith("Bottleneck: the stage that reads orders")
    assert "starting" not in output


def test_channels_and_their_sum(snapshots):
    output = text(snapshots[:1])
    first, second, whole = (cells(output, name) for name in ("0", "1", "all"))
    assert len(first) == len(second) == len(whole) == 10
    assert second[1:5] == ["0", "0", "-", "-"]
    assert whole[1] == first[1]
    assert first[-1] == whole[-1] == "HIGH 83 %"
    assert second[-1] == "OK 0 %"


@pytest.mark.parametrize("width", [80, 100, 200])
def test_nothing_is_cut_off_or_wrapped(snapshots, width):
    lines = text(snapshots, width).splitlines()
    assert max(len(line) for line in lines) <= width
    assert "…" not in "".join(lines)


def test_wide_numbers_fit_as_well(snapshots):
    snapshot = snapshots[0]
    wide = [
        replace(
            c,
            channel=1000 + c.channel,
            backlog_rows=987_654_321,
            backlog_bytes=987 << 40,
            age_s=5000.0,
            drain_s=86_399.0,
            credit=999_999,
            waiting_bytes=1023 << 30,
            rows_in_per_s=123_456.7,
            rows_out_per_s=123_456.7,
            blocked_ratio=1.0,
        )
        for c in snapshot.channels
    ]
    assert "…" not in text([replace(snapshot, channels=tuple(wide))])


def test_no_colours_outside_a_terminal(snapshots):
    assert "\x1b" not in text(snapshots)
    assert "\x1b[1;31mHIGH" in text(snapshots, force_terminal=True, color_system="standard")


def test_the_worst_channels_are_kept_in_their_order(snapshots):
    snapshot = snapshots[0]
    many = [
        replace(snapshot.channels[0], channel=n, blocked_ratio=n % 3 / 2, backlog_bytes=1000 * n)
        for n in range(9)
    ]
    output = text([replace(snapshot, channels=tuple(many))], most=4)
    shown = [line.split()[0] for line in output.splitlines() if line[:1].isdigit()]
    assert shown == ["2", "5", "7", "8"]
    assert "and 5 channels that wait less" in output
    assert "that wait less" not in text([replace(snapshot, channels=tuple(many))], most=9)


def test_a_batch_that_runs_longer_than_the_last_ones_is_shown_so_far(snapshots):
    (receiver,) = snapshots[0].receivers
    late = replace(receiver, batch_s=1.0, running_s=7.0)
    assert ">7 s/2 s" in text([replace(snapshots[0], receivers=(late,))])
    usual = replace(receiver, batch_s=1.0, running_s=0.5)
    assert " 1 s/2 s" in text([replace(snapshots[0], receivers=(usual,))])
    free = replace(receiver, batch_s=1.0, running_s=None, target_s=None)
    assert cells(text([replace(snapshots[0], receivers=(free,))]), "→ main")[4] == "1 s"


def test_a_target_below_the_fixed_cost_is_said(snapshots):
    (receiver,) = snapshots[0].receivers
    assert "without rows" not in text(snapshots)
    missed = replace(receiver, fixed_s=6.0, keeps_target=False)
    lines = text([replace(snapshots[0], receivers=(missed,))], width=200).splitlines()
    assert (
        "main: a batch takes 6 s without rows, its target is 2 s; batches are longer, for 80 % of "
        "the throughput"
    ) in [line.strip() for line in lines]


def test_receivers_of_one_name_are_told_apart(snapshots):
    (receiver,) = snapshots[0].receivers
    pair = (replace(receiver, channels=(0,)), replace(receiver, channels=(1,), is_detached=True))
    output = text([replace(snapshots[0], receivers=pair)])
    assert cells(output, "→ main 0")
    assert "DETACHED" in cells(output, "→ main 1")


def test_several_pairs_have_a_heading_each(snapshots):
    snapshot = snapshots[0]
    more = [replace(c, receiver="audit") for c in snapshot.channels]
    output = text([replace(snapshot, channels=(*snapshot.channels, *more))])
    assert "events → main\n" in output.replace(" \n", "\n")
    assert "events → audit" in output
    assert "events → main\n" not in text([snapshot])


def test_an_empty_link(make_link, clock):
    output = text([LinkMonitor(make_link().path).snapshot(clock.now)])
    assert "No sender has written into a link yet." in output
    assert "no commit yet" in output
    assert "No sender and no receiver has started yet." in output


def test_a_link_without_a_receiver(link, clock):
    link.sender().write({0: 100})
    clock.forward(1)
    output = text([LinkMonitor(link.path).snapshot(clock.now)])
    assert "nobody reads orders, no receiver has started" in output
    assert cells(output, "0")[4] == "?"
