"""What summary.json says of what readers saw: by hand, from rows of the table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.records import DELIVERY
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.topics.delivery import delivery_summary, shown_rows


def scenario(guarantee: str = "exactly-once", interval: str | None = "1s") -> Scenario:
    """Return a job of one sink of two subtasks."""
    return parse_scenario(
        {
            "schema": 1,
            "name": "small",
            "duration_s": 10,
            "options": {"execution.checkpointing.interval": interval} if interval else {},
            "stages": [
                {"name": "a", "emit_rate": 10},
                {"name": "k", "parallelism": 2, "guarantee": guarantee},
            ],
            "edges": [{"from": "a", "to": "k"}],
        }
    )


def table(*rows: tuple[Any, ...]) -> pa.Table:
    """Return the table of some rows."""
    names = DELIVERY.names
    found = [dict(zip(names, (t, "k", *rest), strict=True)) for t, *rest in rows]
    return pa.Table.from_pylist(found, schema=DELIVERY.arrow_schema())


SEEN = table(
    (1.0, 0, 10, 0, 0, 0, None, None),
    (1.0, 1, 10, 0, 0, 0, None, None),
    (2.0, 0, 20, 10, 0, 0, 500.0, 1010.0),
    (2.0, 1, 20, 30, 2, 0, 540.0, 1040.0),
    (3.0, 0, 25, 20, 0, 1, 700.0, 1020.0),
    (3.0, 1, 25, 30, 2, 2, None, None),
)
E2E = {"p50_ms": 20.0, "max_ms": 30.0}


def test_counts_of_the_last_sample_and_latencies_of_all() -> None:
    found = delivery_summary(SEEN, scenario(), {"k": 7}, E2E, 10.0)
    assert found["sinks"]["k"] == {
        "guarantee": "exactly-once",
        "written": 50,
        "visible": 50,
        "twice": 2,
        "lost": 3,
        "staged": 7,
        "visibility_p50_ms": 540.0,  # 10 rows took 500 ms, 30 took 540, and 10 took 700
        "visibility_max_ms": 1040.0,
        "expected_p50_ms": 530.0,  # 500 + 20 + 10
        "expected_max_ms": 1040.0,  # 1000 + 30 + 10
    }
    assert found["sentences"] == [
        "k (exactly-once): readers see 50 rows, 2 of them a second time; 3 records are lost, 7 are "
        "written and not committed. A row was visible 0.54 s after it was written in the median, 1 "
        "s at the most; half an interval and a whole one, with checkpoint and notification, give "
        "0.53 s and 1 s."
    ]


def test_rows_that_are_visible_at_once_have_no_latency() -> None:
    found = delivery_summary(SEEN, scenario("at-least-once"), {"k": 0}, E2E, 10.0)
    own = found["sinks"]["k"]
    names = ("visibility_p50_ms", "visibility_max_ms", "expected_p50_ms", "expected_max_ms")
    assert [own[name] for name in names] == [None] * 4
    assert found["sentences"] == [
        "k (at-least-once): readers see 50 rows, 2 of them a second time; 3 records are lost."
    ]


@pytest.mark.parametrize(
    ("timeout", "replayable", "text"),
    [
        # 1 s of interval, 30 ms of the longest checkpoint and 10 ms of its notification.
        (1, True, "transaction_timeout_s, 1 s, is shorter than the 1.04 s from a checkpoint to"),
        (1, False, "transaction_timeout_s, 1 s, is shorter than"),
        (
            2,
            True,
            "as transactions waited longer for their commit than transaction_timeout_s, 2 s;",
        ),
        (2, False, None),
        (None, True, None),
    ],
)
def test_records_of_transactions_that_expire_are_explained(
    timeout: float | None, replayable: bool, text: str | None
) -> None:
    changed = scenario().canonical()
    changed["stages"][0]["replayable"] = replayable
    if timeout is not None:
        changed["stages"][1]["transaction_timeout_s"] = timeout
    found = delivery_summary(SEEN, parse_scenario(changed), {"k": 7}, E2E, 10.0)
    assert len(found["losses"]) == (text is not None)
    for loss in found["losses"]:
        assert loss.startswith("k lost 3 of the 50 records that it wrote")
        assert text is not None
        assert text in loss
        assert "state more than interval, checkpoint and restart" in loss


def test_without_a_checkpoint_there_is_no_closed_form() -> None:
    nothing = table((1.0, 0, 5, 0, 0, 0, None, None), (1.0, 1, 5, 0, 0, 0, None, None))
    for job, e2e in ((scenario(interval=None), None), (scenario(), None)):
        own = delivery_summary(nothing, job, {"k": 10}, e2e, 10.0)["sinks"]["k"]
        assert (own["visible"], own["staged"], own["expected_max_ms"]) == (0, 10, None)
        assert own["visibility_max_ms"] is None


def test_samples_add_up_the_subtasks_of_the_sinks() -> None:
    assert shown_rows(SEEN, ["k"]) == [(1.0, 0, 0, 0), (2.0, 40, 2, 0), (3.0, 50, 2, 3)]
    assert shown_rows(SEEN, ["another"]) == []
