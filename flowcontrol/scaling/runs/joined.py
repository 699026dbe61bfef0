"""One set of tables of all epochs of a run.

Rows of an epoch are moved to the clock of the whole run, and begin where those of the epoch before
end. A subtask's counters go on over a restart, as they do over one after a failure: a subtask that
is there again counts on from where it was. Those of a channel go on from the largest of them, so
that what was in flight does not stay so; its levels are those of the new channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.records import CHECKPOINT_TASKS, CHECKPOINTS, RESTARTS, RESULTS
from flowcontrol.scaling.runs.epoch import Ended, Span

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_SHARES: Final = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
_COUNTERS: Final = {
    "stages": (["stage", "subtask"], ["records_in", "records_out"], False),
    "channels": (
        ["edge", "sender", "receiver"],
        ["written", "released", "announced", "sent", "consumed"],
        True,
    ),
}
"""By table: who counts, what, and whether all go on from the largest."""

_TIMES: Final = {
    CHECKPOINTS.name: ("triggered_s", "ended_s"),
    CHECKPOINT_TASKS.name: ("acknowledged_s",),
    RESTARTS.name: ("failed_s", "detected_s", "restarted_s", "running_s", "caught_up_s"),
}


def joined_tables(parts: Sequence[tuple[Span, Ended]], *, checkpoints: bool) -> dict[str, pa.Table]:
    """Return the tables of a run.

    - ``parts``: its epochs, in order.
    - ``checkpoints``: whether it checkpoints, and has tables of that.
    """
    found = {name: _samples(name, parts) for name in RESULTS}
    if checkpoints:
        for name in _TIMES:
            found[name] = _events(name, parts)
    return found


def _samples(name: str, parts: Sequence[tuple[Span, Ended]]) -> pa.Table:
    """Return a table with a row a sample of the whole run."""
    import pandas as pd
    import pyarrow as pa

    frames: list[pd.DataFrame] = []
    last: pd.DataFrame | None = None
    for span, ended in parts:
        frame = ended.tables[name].to_pandas()
        frame["t_s"] = _rounded(frame["t_s"] + span.origin_us / 1e6)
        frame = frame[frame["t_s"] > span.begins_us / 1e6 + 1e-9].copy()
        if name == "stages":
            _stand_still(frame, span)
        if name in _COUNTERS:
            last = _count_on(frame, last, *_COUNTERS[name])
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True)
    return pa.Table.from_pandas(whole, RESULTS[name].arrow_schema(), preserve_index=False)


def _stand_still(frame: pd.DataFrame, span: Span) -> None:
    """Take the time before a job runs out of what its subtasks do: they are not there yet."""
    times = np.unique(frame["t_s"].to_numpy())
    before = np.concatenate([[span.begins_us / 1e6], times[:-1]])
    running_s = span.running_us / 1e6
    for at, since in zip(times.tolist(), before.tolist(), strict=True):
        gone = max(0.0, min(at, running_s) - since)
        if gone <= 1e-9:
            continue
        rows = frame["t_s"] == at
        left = np.full(int(rows.sum()), gone / (at - since) * 1000)
        # a source that waits for its start is busy if records wait for it, else idle
        waits = frame.loc[rows, "lag_records"].to_numpy() > 0
        for name in ("busy_ms_per_s", "idle_ms_per_s", "busy_ms_per_s"):
            own = frame.loc[rows, name].to_numpy()
            taken = np.where(waits | (name == "idle_ms_per_s"), np.minimum(own, left), 0.0)
            frame.loc[rows, name] = own - taken
            left = left - taken
            waits = np.ones_like(waits) if name == "idle_ms_per_s" else waits


def _count_on(
    frame: pd.DataFrame,
    last: pd.DataFrame | None,
    owner: list[str],
    columns: list[str],
    as_one: bool,
) -> pd.DataFrame:
    """Have counters go on; return the last of each."""
    import pandas as pd

    if last is not None:
        base = last.copy()
        if as_one:
            for column in columns:
                base[column] = last[columns].max(axis=1)
        keys = pd.MultiIndex.from_frame(frame[owner])
        more = base.reindex(keys, fill_value=0)
        for column in columns:
            frame[column] += more[column].to_numpy()
    now = frame.groupby(owner)[columns].last()
    return now if last is None else now.combine_first(last).astype("int64")


def _events(name: str, parts: Sequence[tuple[Span, Ended]]) -> pa.Table:
    """Return a table of checkpoints or restarts of the whole run, their numbers going on."""
    import pyarrow as pa

    found, first = list[Any](), 0
    for span, ended in parts:
        table = ended.tables[name]
        rows = table.to_pylist()
        for row in rows:
            for key in _TIMES[name]:
                if row[key] is not None:
                    row[key] = round(row[key] + span.origin_us / 1e6, 9)
            if row["checkpoint_id"] is not None and row["checkpoint_id"] > 0:
                row["checkpoint_id"] += first
        found.append(pa.Table.from_pylist(rows, table.schema))
        ids = ended.tables[CHECKPOINTS.name]["checkpoint_id"].to_pylist()
        first += max(ids, default=0)
    return pa.concat_tables(found)


def _rounded(times: pd.Series[float]) -> pd.Series[float]:
    """Return times without the error of a sum of doubles: samples are whole microseconds."""
    return times.round(6)
