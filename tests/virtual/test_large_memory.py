"""Memory of many channels: the system's own, touched page by page, and filled in place."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory import cells
from flowcontrol.memory import fill as filled
from flowcontrol.memory.cells import LINE, Cells
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import RUNS_A_CHANNEL, LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.scenario import load_scenario

CONF = Path(__file__).parents[2] / "conf"


def laid_out() -> Job:
    return build_physical_graph(load_scenario(CONF / "skew.yaml", overrides=("duration_s=2",)))


def memory_of(job: Job) -> Memory:
    sizes = LogSizes.first(job)
    return fill(job, LogSizes(sizes.runs, sizes.ages))


def is_mapped(memory: Cells) -> bool:
    """Tell whether cells are the system's own memory."""
    base = memory.base
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(getattr(base, "obj", base), mmap.mmap)


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="the system has no huge pages")
@pytest.mark.parametrize("reserved", [filled.RESERVED, 1])
def test_a_large_memory_holds_what_a_small_one_does(
    reserved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place, and also where the blocks are so small a part of it that it is copied."""
    job = laid_out()
    small = memory_of(job)
    for module in (cells, filled):
        monkeypatch.setattr(module, "LARGE_CELLS", 1)
    monkeypatch.setattr(filled, "RESERVED", reserved)
    large = memory_of(job)
    assert (is_mapped(small.cells), is_mapped(large.cells)) == (False, True)
    assert np.array_equal(small.cells, large.cells)


def test_slots_begin_with_lines_of_the_cache() -> None:
    """And rooms stand behind all else, where nobody goes who does not need them."""
    memory = memory_of(laid_out())
    head, ins, outs = memory.head, memory.ins, memory.outs
    assert memory.cells.ctypes.data % 64 == 0
    for block, at, ring in (
        (ins, head.inputs_at, "received"),
        (ins, head.inputs_at, "under_way"),
        (outs, head.outputs_at, "finished"),
    ):
        row = block.dtype
        assert row.fields is not None
        here = at + np.arange(len(block)) * row.itemsize // 8 + row.fields[ring][1] // 8
        places, rooms = here + block[ring]["place"], here + block[ring]["room"]
        assert not np.any(places % LINE) and not np.any(rooms % LINE)
        assert places.max() < rooms.min()
        assert len({*places.tolist(), *rooms.tolist()}) == 2 * len(block)


def test_many_channels_have_runs_for_some_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a run a round in flight, however many channels there are."""
    from flowcontrol.memory import log_sizes

    job = laid_out()
    monkeypatch.setattr(log_sizes, "MOST_RUNS", 1)
    channels = sum(link.width for link in job.links)
    assert LogSizes.first(job).runs == RUNS_A_CHANNEL * channels
