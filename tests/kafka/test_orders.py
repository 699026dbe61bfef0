"""Orders from Kafka through a link into a table: all of them, once, in order, whatever happens."""

from __future__ import annotations

import json
import os
import time

import pytest
from deltalake import DeltaTable

from flowcontrol.live.queries import NOT_STARTED

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CUSTOMERS = 20
IS_LONG = "FLOWCONTROL_LONG" in os.environ
FIRST, LATER = (12_000, 600) if IS_LONG else (4_000, 200)
RATE = 300 if IS_LONG else 100
"""Orders that the sink takes a second: it would take 40 s for the first ones."""


def orders(start, stop):
    """Lines for ``kafka.sh produce``: the customer, who is the key, and the order."""
    lines = []
    for number in range(start, stop):
        order = {"order_id": number, "customer_id": number % CUSTOMERS, "amount": number / 4}
        lines.append(f"{number % CUSTOMERS}\t{json.dumps(order)}\n")
    return "".join(lines)


def table(path):
    """The rows of the table, in the order in which the sink was given them."""
    if not DeltaTable.is_deltatable(str(path)):
        return []
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["batch"], row["place"]))


class Starts:
    """The pipeline, started again where Spark gave up: a busy machine starts no worker in 10 s."""

    def __init__(self, start, *arguments):
        self._start, self._arguments = start, arguments
        self.pipeline, self._known, self._left = start(*arguments), 0, 3

    def go_on(self):
        """Start again; an error of any other kind fails the test."""
        count = self.pipeline.said().count(NOT_STARTED)
        assert count > self._known and self._left > 0, self.pipeline.said()
        self._known, self._left = count, self._left - 1
        self.pipeline = self._start(*self._arguments)

    def wait_until(self, condition):
        while not condition():
            if not self.pipeline.runs():
                self.go_on()
            time.sleep(0.1)

    def wait(self):
        while self.pipeline.process.wait() != 0:
            self.go_on()


def test_every_order_arrives_once_and_in_order(broker, start_pipeline, tmp_path):
    broker.do("topic", "orders", "3")
    broker.do("produce", "orders", given=orders(0, FIRST))
    out = tmp_path / "orders"
    arguments = [
        *("--bootstrap", broker.address, "--out", str(out), "--available-now"),
        *("--buffer-bytes", "2 KiB"),
    ]
    # 24 buffers of 2 KiB hold some 1,300 orders: the sender waits for the sink.
    slow = Starts(start_pipeline, *arguments, "--rate", str(RATE))
    slow.wait_until(lambda: table(out / "orders"))

    # Meanwhile new orders come, and Kafka is not asked for anything.
    broker.do("produce", "orders", given=orders(FIRST, FIRST + LATER))
    asked_before, place = broker.asked()
    assert "FETCH" in asked_before
    seen = len(table(out / "orders"))
    slow.wait_until(lambda: len(table(out / "orders")) > seen)
    assert broker.asked(place)[0] == []

    slow.pipeline.kill()
    held_up = len(table(out / "orders"))
    assert 0 < held_up < FIRST

    Starts(start_pipeline, *arguments).wait()
    rows = table(out / "orders")
    assert sorted(row["order_id"] for row in rows) == list(range(FIRST + LATER))
    assert len({(row["partition"], row["offset"]) for row in rows}) == FIRST + LATER
    assert {row["partition"] for row in rows} == {0, 1, 2}
    assert all(row["amount"] == row["order_id"] / 4 for row in rows)
    for customer in range(CUSTOMERS):
        own = [row["order_id"] for row in rows if row["customer_id"] == customer]
        assert own == sorted(own)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (["--buffer-bytes", "1 KiBB"], "buffer_bytes"),
        (["--target-batch-s", "0.01"], "target_batch_s is 0.01"),
        pytest.param(["--target-batch-s", "nan"], "target_batch_s is nan", marks=pytest.mark.long),
        pytest.param(["--rate", "fast"], "invalid float value: 'fast'", marks=pytest.mark.long),
    ],
)
def test_refused_before_spark_starts_and_nothing_is_written(
    start_pipeline, tmp_path, setting, said
):
    refused = start_pipeline("--out", str(tmp_path / "out"), *setting)
    assert refused.process.wait() == 2, refused.said()
    assert said in refused.said()
    assert not (tmp_path / "out").exists()
