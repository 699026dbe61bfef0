"""Sources that fell silent without being idle, so that a watermark stood and everybody waited."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.watermarks import is_relative
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd

_MOST_BLOCKED: Final = 0.5
"""Share of a sample from which a source that emits nothing does so since it is blocked."""

_MS_PER_S: Final = 1000.0


@dataclass(frozen=True)
class Silence:
    """A time in which the watermark of a source's subtask stood, as it had no records."""

    stage: str  # The source
    subtask: int  # Which of its subtasks
    from_s: float  # from_s, until_s: the last sample before it, and the last one in it (s)
    until_s: float

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        return asdict(self)


def longest_silence(
    frame: pd.DataFrame, samples: pd.DataFrame, scenario: Scenario
) -> Silence | None:
    """Return the longest silence of a subtask that was not idle, blocked or paused; None: none.

    A subtask that has not had a watermark yet, or has ended, is no such case: others name it.

    - ``frame``: the table ``time`` in order.
    - ``samples``: the table ``stages`` in order.
    """
    found: list[Silence] = []
    for stage in scenario.sources:
        if not is_relative(scenario, stage.name) and stage.watermark is not None:
            found += _silences(frame, samples, stage)
    return max(found, key=lambda one: one.until_s - one.from_s, default=None)


def _silences(frame: pd.DataFrame, samples: pd.DataFrame, stage: Stage) -> list[Silence]:
    """Return all silences of a source."""
    keys = ["t_s", "stage", "subtask"]
    counted = samples[[*keys, "records_out", "backpressured_ms_per_s"]]
    rows = frame[frame["stage"] == stage.name].merge(counted, on=keys)
    found = []
    for subtask, own in rows.groupby("subtask"):
        stood = own["watermark_s"].notna() & own["watermark_s"].eq(own["watermark_s"].shift())
        stood &= own["records_out"].eq(own["records_out"].shift()) & ~own["is_idle"].astype(bool)
        stood &= own["backpressured_ms_per_s"] < _MOST_BLOCKED * _MS_PER_S
        stood &= own["paused_ms_per_s"] == 0
        before = own["t_s"].shift()
        for _, part in own[stood].groupby((~stood).cumsum()):
            from_s = float(before[part.index[0]])
            found.append(Silence(stage.name, int(str(subtask)), from_s, float(part["t_s"].max())))
    return found
