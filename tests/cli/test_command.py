"""How a command ends: its status, and one line instead of a traceback."""

from __future__ import annotations

import pytest

from flowcontrol.cli.command import exit_status
from flowcontrol.errors import Problem, RunError, ScenarioError


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ScenarioError([Problem("--out", "no")], "command"), 2, "--out: no"),
        (RunError("a query failed"), 1, "the run failed: a query failed"),
        (OSError(28, "No space left on device", "/x"), 1, "the run failed: [Errno 28] No space"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_the_status_says_how_it_ended(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise error

    assert exit_status(command, "the run", "interrupted") == status
    assert said in capsys.readouterr().err


def test_what_is_our_fault_is_not_hidden() -> None:
    def command() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        exit_status(command, "the run", "interrupted")
