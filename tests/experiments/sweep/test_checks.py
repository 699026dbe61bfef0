"""Variants are checked before one runs: ids, refusals, what is alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep.variants import check_variants, variant_id

RATE = "stages.sink.service_rate"


def refusal(plan):
    with pytest.raises(ScenarioError) as caught:
        check_variants(plan)
    return caught.value


def test_every_variant_has_an_id_of_its_own(plan):
    variants = check_variants(plan({RATE: "100:1000:10"}, replications=3))
    assert len({variant.id for variant in variants}) == len(variants) == 30
    assert all(variant.cost > 0 for variant in variants)


def test_replications_have_seeds_one_after_the_other(plan):
    variants = check_variants(plan({RATE: "100,200"}, replications=3))
    assert [(v.point, v.replication, v.seed) for v in variants] == [
        ((100,), 0, 7), ((100,), 1, 8), ((100,), 2, 9),
        ((200,), 0, 7), ((200,), 1, 8), ((200,), 2, 9),
    ]  # fmt: skip


def test_an_id_is_the_hash_of_what_is_run(plan):
    made = plan({RATE: "100,200"}, replications=2)
    for variant in check_variants(made):
        scenario = made.scenario(variant.point, variant.seed)
        assert scenario.seed == variant.seed
        assert scenario.stage("sink").service_rate[0].rate_at(0) == variant.point[0]
        assert variant_id(scenario) == variant.id


def test_an_id_does_not_depend_on_how_a_sweep_came_to_it(plan):
    one = check_variants(plan({RATE: "100,200"}))
    other = check_variants(plan({"seed": "7,8", RATE: "200"}))
    assert one[1].id == other[0].id


def test_an_id_is_the_same_in_another_process(plan, chain):
    code = (
        "import json, sys; from flowcontrol.experiments.sweep.variants import variant_id; "
        "from flowcontrol.scenario import parse_scenario; "
        "print(variant_id(parse_scenario(json.load(sys.stdin))))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(chain),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "99"},
        cwd=Path(__file__).resolve().parents[3],
    )
    (variant,) = check_variants(plan({"seed": "7"}))
    assert found.stdout.strip() == variant.id


def test_options_of_checkpoints_are_varied_like_others(plan):
    checkpointing = "options.execution.checkpointing."
    made = plan(
        {
            f"{checkpointing}interval": "500,1000",
            f"{checkpointing}unaligned.enabled": "true,false",
            "restart-strategy.fixed-delay.attempts": "2,3",
        }
    )
    variants = check_variants(made)
    assert len({variant.id for variant in variants}) == len(variants) == 8
    for variant in variants:
        scenario = made.scenario(variant.point, variant.seed)
        found, (interval, is_unaligned, attempts) = scenario.checkpointing, variant.point
        assert (found.interval_us, found.is_unaligned) == (interval * 1000, is_unaligned)
        assert scenario.options.fixed_delay_attempts == attempts


def test_a_bad_variant_is_named_with_its_key_and_its_limit(plan):
    error = refusal(plan({RATE: "100,-5", "stages.map.parallelism": "1,2"}))
    assert len(error.problems) == 1
    text = str(error)
    assert "variant 3 of 4 (sink service_rate=-5, map parallelism=1)" in text
    assert "stages[2].service_rate" in text
    assert "-5" in text
    assert "at least 0" in text
    assert "(and 1 more variant)" in text


def test_a_key_that_no_scenario_has_is_refused(plan):
    text = str(refusal(plan({"stages.sink.service_rat": "1,2"})))
    assert "unknown key" in text
    assert "'service_rate'" in text


def test_a_stage_that_is_not_there_is_refused(plan):
    text = str(refusal(plan({"stages.snik.service_rate": "1,2"})))
    assert "'snik'" in text
    assert "source, map, sink" in text


def test_an_option_that_flink_has_not_is_refused(plan):
    text = str(refusal(plan({"options.taskmanager.network.memory.buffers-per-chanel": "1,2"})))
    assert "buffers-per-channel" in text


def test_a_job_that_is_refused_as_it_is_laid_out_is_a_bad_variant(plan):
    made = plan(
        {
            "options.taskmanager.network.numberOfBuffers": "4,2048",
            "options.taskmanager.network.memory.buffers-per-channel": "2,3",
        }
    )
    text = str(refusal(made))
    assert "variant 1 of 4 (numberOfBuffers=4, buffers-per-channel=2)" in text
    assert "Insufficient number of network buffers" in text


def test_rates_of_many_digits_are_taken(plan):
    fine = [100.123456789012345, 200.987654321098765]
    assert len(check_variants(plan({RATE: fine, "duration_s": [1e7]}))) == 2
    assert len(check_variants(plan({RATE: [1e11, 1e12], "duration_s": [1e9]}))) == 2


def test_rates_that_no_clock_can_count_are_refused(plan):
    rates = {"stages.source.emit_rate": [1e11, 1e12]}
    text = str(refusal(plan({**rates, "duration_s": [1e9]})))
    assert "variant 1 of 2" in text
    assert "stages.source" in text
    assert "1e+20 is more than 3.6e+16 records" in text
    assert "lower the rate or shorten the run" in text


def test_a_base_need_not_be_whole(plan, chain):
    del chain["stages"][0]["emit_rate"]
    assert len(check_variants(plan({"stages.source.emit_rate": "1,2"}))) == 2
    assert "emit_rate" in str(refusal(plan({RATE: "1,2"})))


def test_two_ways_to_write_one_scenario_are_refused(plan):
    text = str(refusal(plan({"options.taskmanager.memory.segment-size": "4kb,4096"})))
    assert "variant (segment-size=4096)" in text
    assert "same scenario as (segment-size=4kb)" in text


def test_many_problems_are_cut(plan):
    error = refusal(plan({RATE: "-100:-1:100"}))
    assert len(error.problems) == 21
    assert "and 80 more problems" in str(error)


def test_nothing_is_laid_out_for_the_sake_of_a_replication(plan, monkeypatch):
    costs = []
    name = "flowcontrol.experiments.sweep.variants.estimated_cost"
    monkeypatch.setattr(name, lambda job: costs.append(job) or 1.0)
    check_variants(plan({RATE: "100,200"}, replications=50))
    assert len(costs) == 2
