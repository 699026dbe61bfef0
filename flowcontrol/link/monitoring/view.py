"""The figures of a link for SQL: a temporary view over its ledger.

The same figures as a look's (:mod:`.look`), a row per sender, receiver and channel, worked out by
Spark when the view is read. Only the exchange log's index is out of SQL's reach: sizes of a
backlog are its rows by the mean size that the channel's rows have had.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flowcontrol.analysis.pressure import HIGH_ABOVE, LOW_ABOVE
from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_ledger import create_ledger
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.monitoring.look import WINDOW_S
from flowcontrol.link.monitoring.rates import PATIENCE
from flowcontrol.link.settings import LinkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS = 2000
"""Newest commits of each member that rates are worked out from: minutes of a busy link."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def create_view(
    spark: SparkSession,
    name: str,
    storage: Storage,
    settings: LinkSettings,
    *,
    window_s: float = WINDOW_S,
    as_of: datetime | None = None,
) -> None:
    """Make a temporary view of a link's figures.

    Parameters
    ----------
    spark : SparkSession
        With Delta's extension.
    name : str
        Of the view; one of that name is replaced.
    storage : Storage
        The link's folder.
    settings : LinkSettings
        The link's.
    window_s : float, default 10
        What rates and shares cover, seconds.
    as_of : datetime, optional
        Show the link as it was then; by default as it is whenever the view is read.

    Raises
    ------
    LinkError
        If the name is not one.
    """
    if not _NAME.fullmatch(name):
        raise LinkError(
            f"the view is called {name!r}: needs letters, digits and '_', the first no digit"
        )
    create_ledger(storage.child("ledger"))  # a link that nobody has used is an empty view
    query = view_sql(str(storage.child("ledger")), settings, window_s, as_of)
    # From the frame: a view made of the text would be analysed again each time it is read.
    spark.sql(query).createOrReplaceTempView(name)


def view_sql(
    ledger: str, settings: LinkSettings, window_s: float = WINDOW_S, as_of: datetime | None = None
) -> str:
    """Return the query of the view, for who wants to keep it elsewhere.

    Parameters
    ----------
    ledger : str
        Path of the ledger's table.
    settings : LinkSettings
        The link's.
    window_s : float, default 10
        What rates and shares cover, seconds.
    as_of : datetime, optional
        As for :func:`create_view`.
    """
    now = "unix_micros(current_timestamp()) / 1e6"
    if as_of is not None:
        now = f"{as_of.astimezone(UTC).timestamp():.6f}D"
    return _QUERY.format(
        ledger=ledger.replace("`", "``"),
        now=now,
        window=f"{window_s:.6f}D",
        commits=COMMITS,
        patience=f"{PATIENCE:.1f}D",
        low=f"{LOW_ABOVE}D",
        high=f"{HIGH_ABOVE}D",
        pool_size=settings.pool_size,
        detaches="true" if settings.detach_after_bytes is not None else "false",
    )


# One lineage with one join: whatever a query names twice, Spark works out twice.
_QUERY = """
WITH ledger AS (
  SELECT *, regexp_extract(_metadata.file_name, '^(.*)[.]L[0-9][.]', 1) AS file,
    unix_micros(committed_at) / 1e6 AS at, {now} AS now
  FROM delta.`{ledger}`
  WHERE unix_micros(committed_at) / 1e6 <= {now}
),
newest AS (SELECT file, max(batch_id) AS last FROM ledger GROUP BY file),
-- Few rows are left; to exchange them again and again would take longer than all the rest.
recent AS (
  SELECT /*+ REPARTITION(1) */ l.*
  FROM ledger l JOIN newest n ON l.file = n.file WHERE batch_id > last - {commits}
),
commits AS (
  SELECT side, file, batch_id, at,
    max(get_json_object(task_state, '$.name')) AS name,
    CAST(max(get_json_object(task_state, '$.epoch')) AS BIGINT) AS epoch,
    CAST(max(get_json_object(task_state, '$.target_batch_s')) AS DOUBLE) AS target_s,
    from_json(max(get_json_object(task_state, '$.detached')), 'array<string>') AS detached,
    coalesce(max(get_json_object(task_state, '$.removed')), 'false') = 'true' AS is_removed,
    sum(rows) > 0 AS is_busy,
    sum(written) AS all_written,
    any_value(now) AS now,
    collect_list(struct(sender, receiver, written, released, announced, sent, consumed, rows,
      bytes, channel_state)) AS channels
  FROM recent GROUP BY side, file, batch_id, at
),
-- How long each commit was the newest, and whether a killed batch ended with the next start.
steps AS (
  SELECT *,
    lead(at) OVER member AS next_at,
    coalesce(lead(epoch) OVER member <> epoch, false) AS is_cut,
    coalesce(all_written > lag(all_written) OVER member, false) AS is_batch,
    min(at) OVER (PARTITION BY side, file, name, epoch) AS started_at
  FROM commits
  WINDOW member AS (PARTITION BY side, file, name ORDER BY batch_id)
),
-- A receiver's batch runs from its commit to the next, a sender's from its last batch to this one.
timed AS (
  SELECT *,
    if(side = 'receiver', at, greatest(started_at, last_value(if(is_batch, at, NULL), true) OVER
      (PARTITION BY side, file, name ORDER BY batch_id
       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))) AS begin_at,
    if(side = 'receiver', next_at, at) AS end_at,
    is_busy AND if(side = 'receiver', next_at IS NOT NULL AND NOT is_cut, is_batch) AS is_ended
  FROM steps
),
ranked AS (
  SELECT *, is_ended AND (end_at > now - {window} OR row_number() OVER
      (PARTITION BY side, file, name, is_ended ORDER BY batch_id DESC) = 1) AS is_recent
  FROM timed
),
cells AS (SELECT *, inline(channels) FROM ranked),
sums AS (
  SELECT side, name, sender, receiver AS channel,
    max_by(struct(written, released, announced, sent, consumed, rows, bytes, at, target_s, is_busy,
      detached, is_removed, channel_state), batch_id) AS newest,
    any_value(now) AS now,
    coalesce(sum(rows) FILTER (WHERE is_recent), 0) AS moved_rows,
    coalesce(sum(bytes) FILTER (WHERE is_recent), 0) AS moved_bytes,
    sum(bytes) / nullif(sum(rows), 0) AS row_bytes,
    sum(end_at - begin_at) FILTER (WHERE is_recent) AS busy_s,
    sum(end_at - begin_at) FILTER (WHERE is_recent) / count_if(is_recent) AS batch_s,
    max(end_at) FILTER (WHERE is_recent) AS last_end,
    max(end_at) FILTER (WHERE is_recent) - min(begin_at) FILTER (WHERE is_recent) AS length_s,
    coalesce(sum(greatest(0, coalesce(next_at, now) - greatest(at, now - {window})))
      FILTER (WHERE released < written), 0)
      / nullif(any_value(now) - greatest(any_value(now) - {window}, min(at)), 0) AS waiting_ratio,
    collect_list(struct(written, at)) FILTER (WHERE side = 'sender' AND rows > 0) AS history
  FROM cells GROUP BY side, file, name, sender, receiver
),
timings AS (
  SELECT *, newest.*,
    if(now - last_end > greatest({window}, {patience} * batch_s), 0,
      length_s + greatest(0, now - last_end - batch_s)) AS spread_s,
    if(side = 'receiver' AND newest.is_busy, greatest(0, now - newest.at), NULL) AS running_s
  FROM sums WHERE NOT newest.is_removed
),
rated AS (
  SELECT *,
    coalesce(moved_rows / nullif(spread_s, 0), 0) AS rows_per_s,
    coalesce(moved_bytes / nullif(spread_s, 0), 0) AS bytes_per_s,
    least(moved_bytes / nullif(busy_s, 0), if(running_s IS NULL, NULL,
      (moved_bytes + bytes) / nullif(busy_s + running_s, 0))) AS busy_rate
  FROM timings
),
channels AS (
  SELECT sender AS number, channel, any_value(now) AS now,
    max(struct(name, written, released, channel_state, detached, rows_per_s, bytes_per_s,
      waiting_ratio, row_bytes, history)) FILTER (WHERE side = 'sender') AS s,
    collect_list(struct(name, announced, sent, consumed, channel_state, rows_per_s, bytes_per_s,
      busy_rate, row_bytes, batch_s, running_s, target_s)) FILTER (WHERE side = 'receiver') AS rs
  FROM rated GROUP BY sender, channel
),
named AS (
  SELECT *, array_distinct(flatten(collect_list(transform(rs, r -> r.name)) OVER ())) AS names
  FROM channels
),
each AS (
  SELECT *, explode(if(size(names) = 0, array(''), names)) AS receiver
  FROM named WHERE s IS NOT NULL
),
pairs AS (SELECT *, try_element_at(filter(rs, r -> r.name = receiver), 1) AS r FROM each),
figures AS (
  SELECT now, number, s.name AS sender, receiver, channel, s.written, s.released,
    coalesce(r.announced, 0) AS announced, coalesce(r.sent, 0) AS sent,
    coalesce(r.consumed, 0) AS consumed,
    CAST(get_json_object(s.channel_state, '$.waiting_bytes') AS BIGINT) AS waiting_bytes,
    CAST(get_json_object(s.channel_state, '$.records') AS BIGINT)
      - coalesce(CAST(get_json_object(r.channel_state, '$.record') AS BIGINT), 0) AS backlog_rows,
    coalesce(s.row_bytes, r.row_bytes, 0) AS row_bytes,
    array_min(transform(filter(s.history, h -> h.written > coalesce(r.consumed, 0)), h -> h.at))
      AS oldest,
    s.rows_per_s AS rows_in_per_s, s.bytes_per_s AS bytes_in_per_s,
    coalesce(r.rows_per_s, 0) AS rows_out_per_s, coalesce(r.bytes_per_s, 0) AS bytes_out_per_s,
    coalesce(least(1, s.waiting_ratio), 0) AS blocked_ratio,
    r.busy_rate, r.batch_s, r.running_s, r.target_s,
    NOT coalesce(array_contains(s.detached, receiver), false) AS is_attached,
    sum(coalesce(r.consumed, 0)) OVER (PARTITION BY number, receiver) AS all_consumed
  FROM pairs
),
-- The sender waits for the slowest receiver; where it cuts slow ones off, for the fastest.
pacing AS (
  SELECT *, is_attached AND (NOT {detaches} OR row_number() OVER
      (PARTITION BY number, channel, is_attached ORDER BY all_consumed DESC, receiver) = 1)
    AS is_pacing
  FROM figures
),
held AS (
  SELECT *, min(if(is_pacing, consumed, NULL)) OVER (PARTITION BY number, channel) AS least,
    CAST(round(backlog_rows * row_bytes) AS BIGINT) AS backlog_bytes
  FROM pacing
),
graded AS (SELECT *, is_pacing AND consumed = least AS is_holding FROM held)
SELECT sender, receiver, CAST(channel AS INT) AS channel, written, released, announced, sent,
  consumed, announced - sent AS credit, greatest(0, released - consumed) AS in_flight,
  written - released AS waiting, waiting_bytes, backlog_rows, backlog_bytes,
  CAST(if(consumed < written, greatest(0, now - oldest), 0) AS DOUBLE) AS age_s,
  if(backlog_bytes = 0, 0D, backlog_bytes / nullif(busy_rate, 0)) AS drain_s,
  CAST(rows_in_per_s AS DOUBLE) AS rows_in_per_s, CAST(bytes_in_per_s AS DOUBLE) AS bytes_in_per_s,
  CAST(rows_out_per_s AS DOUBLE) AS rows_out_per_s,
  CAST(bytes_out_per_s AS DOUBLE) AS bytes_out_per_s,
  CAST(blocked_ratio AS DOUBLE) AS blocked_ratio, is_holding,
  CASE WHEN NOT is_holding OR blocked_ratio <= {low} THEN 'OK'
       WHEN blocked_ratio <= {high} THEN 'LOW' ELSE 'HIGH' END AS verdict,
  batch_s, running_s, target_s,
  CAST(sum(greatest(0, released - coalesce(least, 0))) OVER (PARTITION BY number, receiver) AS INT)
    AS pool_used,
  {pool_size} AS pool_size
FROM graded
"""
