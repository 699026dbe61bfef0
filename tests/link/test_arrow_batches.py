"""How a sender has Spark cut Arrow batches: by number of rows, once their size is known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flowcontrol.ledger.link_log import PackedRows
from flowcontrol.link.batches import MOST_BYTES, MOST_ROWS, arrow_batches, mean_row_bytes


class Conf(dict):
    """What a session's settings can do."""

    def set(self, name, value):
        self[name] = value

    def unset(self, name):
        self.pop(name, None)


def session(**values):
    names = {"rows": MOST_ROWS, "nbytes": MOST_BYTES}
    return SimpleNamespace(conf=Conf({names[key]: value for key, value in values.items()}))


@pytest.mark.parametrize(
    ("own", "row_bytes", "rows"),
    [
        ("10000", 100.0, "2621"),
        ("1000", 100.0, "1000"),  # a user's smaller number stays
        ("10000", 1.0, "10000"),
        (None, 1.0, "10000"),  # the session has set nothing
        ("0", 100.0, "2621"),  # without a limit of Spark's
        ("-1", 100.0, "2621"),
        ("10000", 5e6, "1"),  # a row of 5 MB: one by one
    ],
)
def test_rows_of_about_a_quarter_of_a_megabyte(own, row_bytes, rows):
    spark = session(nbytes="67108864") if own is None else session(rows=own, nbytes="67108864")
    before = dict(spark.conf)
    with arrow_batches(spark, row_bytes):
        assert spark.conf == {MOST_ROWS: rows, MOST_BYTES: "2147483647"}
    assert spark.conf == before


def test_nothing_changes_before_the_size_of_a_row_is_known():
    spark = session(rows="10000")
    with arrow_batches(spark, None):
        assert spark.conf == {MOST_ROWS: "10000"}


def test_settings_come_back_after_a_failure_and_none_is_left():
    spark = session()
    with pytest.raises(RuntimeError), arrow_batches(spark, 100.0):
        assert spark.conf[MOST_BYTES] == "2147483647"
        raise RuntimeError
    assert spark.conf == {}


def test_the_mean_size_of_a_batchs_rows():
    files = [
        PackedRows("a", 900, 9, [(0, [(4, 400), (4, 440)]), (1, [(1, 60)])]),
        PackedRows("b", 100, 1, [(1, [(1, 100)])]),
    ]
    assert mean_row_bytes(files) == 100.0
    assert mean_row_bytes([]) is None
