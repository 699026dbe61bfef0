"""When a run's tasks are sampled, and where in a round: by hand, without a clock."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.results.sampling import AGAIN_MS, Sampling, sampling_of
from flowcontrol.scenario import parse_scenario


def laid_out(sampling: Any, *, round_us: int, duration_s: float = 20, chain: bool = False) -> Job:
    """A source of two subtasks into a sink."""
    keys = {
        "schema": 1,
        "name": "watched",
        "duration_s": duration_s,
        "monitoring": {"sampling": sampling} if sampling is not None else None,
        "stages": [
            {"name": "a", "emit_rate": 10, "parallelism": 2},
            {"name": "b", "service_rate": 10, "parallelism": 2 if chain else 1},
        ],
        "edges": [{"from": "a", "to": "b", "chain": chain}],
    }
    if chain:
        keys["stages"].append({"name": "c"})  # type: ignore[attr-defined]
        keys["edges"].append({"from": "b", "to": "c"})  # type: ignore[attr-defined]
    return build_physical_graph(parse_scenario(keys), round_us=round_us)


def sampling(job: Job) -> Sampling:
    found = sampling_of(job)
    assert found is not None
    return found


def rows(own: Sampling) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in own.table().to_pylist()]


def test_without_the_key_there_is_none() -> None:
    assert sampling_of(laid_out(None, round_us=1000)) is None


def test_rounds_that_are_looked_at() -> None:
    """Three samples 4 ms apart; a second after their end the next ones. A round takes 2.5 ms."""
    job = laid_out({"samples": 3, "delay_ms": 4, "refresh_s": 1}, round_us=2500)
    own, seen = sampling(job), []
    while own.next_round < 900:
        seen.append(own.next_round)
        own.look(own.next_round, lambda plan: [2500] * plan.stage.parallelism)
    # 0, 4 and 8 ms; 1,008, 1,012 and 1,016 ms; 2,016, 2,020 and 2,024 ms
    assert seen == [0, 1, 3, 403, 404, 406, 806, 808, 809]
    assert [row[0] for row in rows(own)] == [0.008] * 3 + [1.016] * 3 + [2.024] * 3
    assert set(rows(own)) >= {(0.008, "a", 0, 1.0, "HIGH"), (0.008, "a", 1, 1.0, "HIGH")}


def test_what_each_round_was_makes_the_ratio() -> None:
    job = laid_out({"samples": 10, "delay_ms": 10, "refresh_s": 1}, round_us=1000)
    own = sampling(job)
    for number in range(0, 100, 10):
        blocked = {"a": [1000 * (number < 20), 0], "b": [1000 * (number >= 30)]}
        own.look(number, lambda plan, own=blocked: own[plan.name])
    assert rows(own) == [
        (0.09, "a", 0, 0.2, "LOW"),
        (0.09, "a", 1, 0.0, "OK"),
        (0.09, "b", 0, 0.7, "HIGH"),
    ]


def test_stages_of_a_chain_have_what_their_task_has() -> None:
    own = sampling(laid_out({"samples": 1}, round_us=1000, chain=True))
    own.look(0, lambda plan: [1000 * (plan.name == "a")] * plan.stage.parallelism)
    found = [(stage, subtask, ratio) for _, stage, subtask, ratio, _ in rows(own)]
    assert found == [("a", 0, 1.0), ("a", 1, 1.0), ("b", 0, 1.0), ("b", 1, 1.0), ("c", 0, 0.0)]


def test_a_set_waits_until_all_subtasks_run() -> None:
    """Also one that has begun goes on without a subtask that stops, with fewer samples of it."""
    own = sampling(laid_out({"samples": 2, "delay_ms": 5}, round_us=1000))
    runs = {0: False, AGAIN_MS: True, AGAIN_MS + 5: False}
    for number, is_running in runs.items():
        assert own.next_round <= number
        own.look(
            number, lambda plan, r=is_running: [0, 1000 if r else None][: plan.stage.parallelism]
        )
    assert rows(own) == [
        (0.005, "b", 0, 0.0, "OK"),
        (1.005, "a", 0, 0.0, "OK"),
        (1.005, "a", 1, 1.0, "HIGH"),
    ]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_part_of_a_round_is_found_by_that_part_of_the_samples(share: float) -> None:
    job = laid_out({"samples": 4000, "delay_ms": 1}, round_us=100_000)
    own = sampling(job)
    for number in range(40):
        own.look(number, lambda plan: [int(share * 1e5)] * plan.stage.parallelism)
    for _, _, _, ratio, _ in rows(own):
        assert abs(ratio - share) < 4 * (share * (1 - share) / 4000) ** 0.5
    assert rows(own)[0][3] != rows(own)[1][3]  # subtasks are drawn apart


def test_a_run_that_ends_too_early_has_no_rows() -> None:
    own = sampling(laid_out({"samples": 2, "delay_ms": 5}, round_us=1000))
    own.look(0, lambda plan: [0] * plan.stage.parallelism)
    assert rows(own) == []
    assert own.table().column_names == ["t_s", "stage", "subtask", "ratio", "level"]
