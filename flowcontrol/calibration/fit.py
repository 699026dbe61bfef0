"""``fit_scenario``: figures of a running job in, a scenario out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flowcontrol.calibration.calibrate import check
from flowcontrol.calibration.draft import Draft, Figure
from flowcontrol.calibration.dump import read_dump
from flowcontrol.calibration.fit_flink import fit_flink
from flowcontrol.calibration.flink_rest import read_job
from flowcontrol.scenario import Scenario


class Fitted(NamedTuple):
    """A scenario, and where each of its figures comes from."""

    scenario: Scenario  # Read and checked
    # By the path of the key (``stages.sink.service_rate``): value, origin, estimate of the relative
    # error, and whether it is assumed.
    figures: dict[str, Figure]


def fit_scenario(
    flink_rest: str | Path | Mapping[str, Any] | Sequence[Any] | None = None,
    spark_progress: str | Path | Sequence[Any] | None = None,
) -> Fitted:
    """Fit a scenario to a running job's own figures.

    True rates are records over busy time; see ``docs/howto/calibrate.md``.

    - ``flink_rest``: polls of Flink's REST API: a file, ``{"polls": [...]}``, or the list; each
      poll a mapping of path to body.
    - ``spark_progress``: ``StreamingQueryProgress``: a file with one JSON object a line, or the
      list of objects.

    Returns the scenario and, by key, each figure's error and origin. Raises ScenarioError if the
    input is damaged, or does not hold what a scenario needs. Raises ValueError if none or both are
    given.
    """
    if (flink_rest is None) == (spark_progress is None):
        raise ValueError("fit_scenario takes flink_rest or spark_progress: give one of them")
    if flink_rest is not None:
        polls, source = read_dump(flink_rest)
        draft = fit_flink(read_job(polls, source))
    else:
        from flowcontrol.calibration.spark_progress import fit_progress

        draft = fit_progress(spark_progress)
    return fitted(draft)


def fitted(draft: Draft) -> Fitted:
    """Return a draft's scenario, checked, and its figures by key."""
    return Fitted(check(draft), {figure.key: figure for figure in draft.figures})
