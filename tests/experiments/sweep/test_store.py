"""The table gets each variant once, whatever workers hand over."""

from __future__ import annotations

import json
import uuid

import pytest

from flowcontrol.experiments.base import Paths
from flowcontrol.experiments.sweep.store import Collector, SweepWork, read_results
from flowcontrol.experiments.sweep.variants import check_variants

VARY = {"stages.sink.service_rate": "100:600:6"}


class Bench:
    """One sweep with its folder, cut into chunks of two variants."""

    def __init__(self, plan, folder, simulate):
        self.plan, self.simulate = plan(VARY), simulate
        self.variants = check_variants(self.plan)
        self.paths = Paths(folder)
        self.start()

    def start(self):
        self.run_id = uuid.uuid4().hex[:12]
        self.collector = Collector(self.paths, self.plan, "the-sweep", self.run_id)
        return self.collector

    def work(self, *chunks):
        return SweepWork(self.paths, self.run_id, chunks, self.simulate, 0, self.plan)

    def run(self, *variants):
        return self.work(variants).run(0)

    def committed(self):
        return sorted(read_results(self.paths)["variant"].to_pylist())

    def three_rows_of(self, *variants):
        return sorted(3 * [variant.id for variant in variants])


@pytest.fixture
def bench(plan, tmp_path, fakes):
    return Bench(plan, tmp_path, fakes.simulate)


def test_a_chunk_gets_into_the_table(bench):
    a, b, *_ = bench.variants
    assert bench.run(a, b) == 2
    assert bench.committed() == []
    assert bench.collector.collect() == 2
    assert bench.committed() == bench.three_rows_of(a, b)
    assert bench.collector.done == {a.id, b.id}
    assert bench.collector.collect() == 0


def test_rows_have_their_varied_values_and_types(bench):
    bench.run(bench.variants[2])
    bench.collector.collect()
    table = read_results(bench.paths)
    assert table.schema.field("sink_service_rate").type == "int64"
    assert set(table["sink_service_rate"].to_pylist()) == {300}
    assert table["stage"].to_pylist() == ["source", "map", "sink"]
    assert table["rate_in"].to_pylist()[2] == 307
    assert table["seed"].to_pylist() == [7, 7, 7]


def test_the_table_keeps_deltas_own_retention(bench):
    from deltalake import DeltaTable

    bench.run(bench.variants[0])
    bench.collector.collect()
    table = DeltaTable(str(bench.paths.results))
    assert table.metadata().configuration == {}


def test_a_task_that_is_repeated_adds_nothing(bench):
    a, b, *_ = bench.variants
    bench.run(a, b)
    bench.run(a, b)
    assert bench.collector.collect() == 2
    bench.run(a, b)
    assert bench.collector.collect() == 0
    assert bench.committed() == bench.three_rows_of(a, b)


def test_of_a_part_that_is_half_known_the_other_half_is_taken(bench):
    a, b, c, *_ = bench.variants
    bench.run(a)
    bench.collector.collect()
    bench.run(a, b)
    bench.run(b, c)
    assert bench.collector.collect() == 2
    assert bench.committed() == bench.three_rows_of(a, b, c)


def test_finds_of_one_look_are_one_commit(bench):
    from deltalake import DeltaTable

    before = DeltaTable(str(bench.paths.results)).version()
    for variant in bench.variants:
        bench.run(variant)
    bench.collector.collect()
    assert DeltaTable(str(bench.paths.results)).version() == before + 1


def test_another_start_knows_what_is_there_and_clears_the_rest_away(bench):
    a, b, c, *_ = bench.variants
    bench.run(a)
    bench.collector.collect()
    bench.run(b)  # killed before it was committed
    old = bench.run_id
    (bench.paths.results / f"{old}-torn.parquet").write_bytes(b"half a file")
    again = bench.start()
    assert again.done == {a.id}
    assert list(bench.paths.notes.iterdir()) == []
    assert len(list(bench.paths.results.glob("*.parquet"))) == 1
    bench.run(b, c)
    again.collect()
    assert bench.committed() == bench.three_rows_of(a, b, c)


def test_a_worker_of_an_earlier_start_is_not_listened_to(bench):
    a, b, *_ = bench.variants
    late = bench.work([a])
    bench.start()
    late.run(0)
    assert bench.collector.collect() == 0
    bench.run(b)
    bench.collector.collect()
    assert bench.committed() == bench.three_rows_of(b)


def test_a_variant_that_fails_does_not_stop_the_others(bench, fakes):
    bench.plan = type(bench.plan)(bench.plan.base, bench.plan.varied)
    bench.simulate = fakes.fails_at_250
    made = check_variants(bench.plan)
    bad = made[0]
    planted = type(bad)(bad.id, (250,), 0, 7, 1.0)
    bench.run(planted, *made[1:3])
    assert bench.collector.collect() == 2
    assert bench.collector.failed == {bad.id: "ArithmeticError: a planted fault"}
    assert bench.committed() == bench.three_rows_of(*made[1:3])


def test_a_chunk_in_which_all_fail_leaves_a_note_and_no_file(bench, fakes):
    bench.simulate = fakes.fails_at_250
    bad = bench.variants[0]
    bench.run(type(bad)(bad.id, (250,), 0, 7, 1.0))
    assert bench.collector.collect() == 0
    assert len(bench.collector.failed) == 1
    assert list(bench.paths.results.glob("*.parquet")) == []


def test_a_chunk_hands_over_every_few_seconds(bench):
    seconds = iter(range(0, 1000, 2))
    bench.work(bench.variants).run_chunk(0, lambda: next(seconds))
    notes = [json.loads(path.read_text()) for path in sorted(bench.paths.notes.glob("*.json"))]
    # The clock is read once a variant: at 2, 4 and 6 s after the start of a part.
    assert sorted(len(note["variants"]) for note in notes) == [3, 3]
    assert bench.collector.collect() == 6


def test_a_sweep_that_is_stopped_ends_after_the_variant_under_way(bench, fakes):
    ran = []

    def stops(scenario):
        ran.append(scenario)
        if len(ran) == 2:
            bench.paths.stop_file(bench.run_id).touch()
        return fakes.simulate(scenario)

    bench.simulate = stops
    assert bench.run(*bench.variants) == 2
    assert bench.collector.collect() == 2


@pytest.mark.parametrize("is_compiled", [True, False])
def test_it_is_noted_whether_workers_compile(bench, monkeypatch, is_compiled):
    monkeypatch.setattr("flowcontrol.experiments.sweep.store.is_compiled", lambda: is_compiled)
    bench.run(bench.variants[0])
    bench.collector.collect()
    assert bench.collector.is_compiled is is_compiled


def test_notes_are_gone_in_the_end(bench):
    bench.run(bench.variants[0])
    bench.collector.collect()
    bench.collector.clear()
    assert not bench.paths.notes.exists()
