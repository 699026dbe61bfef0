from __future__ import annotations

import pytest

from flowcontrol.spark.session import cause_of

WRAPPED = """[STREAM_FAILED] Query terminated with exception: An exception was raised by the Python
Proxy. Return Message: Traceback (most recent call last):
  File "batch.py", line 95, in __call__
    raise LedgerError("no rows")
FileNotFoundError: [Errno 2] No such file: 'x'

During handling of the above exception, another exception occurred:

flowcontrol.errors.LedgerError: no rows of the sender for batch 3
=== Streaming Query ===
Current State: ACTIVE
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (WRAPPED, "flowcontrol.errors.LedgerError: no rows of the sender for batch 3"),
        ("\n\n  java.lang.OutOfMemoryError: heap\n", "java.lang.OutOfMemoryError: heap"),
        ("KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("the query was stopped\nby somebody\n", "the query was stopped"),
        ("  \n", "no reason given"),
        ("", "no reason given"),
    ],
)
def test_the_cause_is_the_last_line_that_names_a_python_error(text: str, cause: str) -> None:
    assert cause_of(text) == cause
