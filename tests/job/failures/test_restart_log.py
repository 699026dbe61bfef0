"""What a restart says of itself."""

from __future__ import annotations

import pytest

from flowcontrol.job.restart_log import Restart


@pytest.mark.parametrize(
    ("causes", "words"),
    [
        (["the JobManager"], "the JobManager"),
        (["the JobManager", "the JobManager"], "the JobManager"),
        (
            ["task manager 1", "the JobManager", "task manager 1"],
            "task manager 1 and the JobManager",
        ),
    ],
)
def test_what_fails_again_is_named_once(causes: list[str], words: str) -> None:
    one = Restart(1, causes, failed_us=0, failed=0)
    assert one.cause == one.row(100_000)["cause"] == words
    assert one.causes == causes
