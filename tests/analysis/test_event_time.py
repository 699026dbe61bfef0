"""Event time in figures and words, from tables made by hand: one figure, one cause at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.analysis import summarise
from flowcontrol.analysis.event_time import event_time_summary, time_frame
from flowcontrol.records import TIME
from flowcontrol.scenario import Scenario

TIMES = [float(second) for second in range(1, 21)]
TIMED = {"event_time": {"out_of_orderness_s": 5}, "watermark": {"delay_s": 5}}
WINDOW = {"window": {"kind": "tumbling", "size_s": 10}}
CHAIN = ["source->map", "map->sink"]
LINE = {"source": TIMED, "map": {}, "sink": WINDOW}


def behind(lag_s: float, first: int = 1) -> list[float | None]:
    """Return watermarks that lag by so much; none before the sample of that number."""
    return [None if t < first else t - lag_s for t in TIMES]


def counted(rate: float) -> list[int]:
    """Return a counter at the samples."""
    return [int(rate * t) for t in TIMES]


def line(builder: ModuleType, **sink: Any) -> Any:
    """Return a job of three stages: 5 s delay, 0.2 s at the source, 0.1 and 2 s on the hops."""
    made = builder.Results(TIMES)
    made.stage("source", records_out=counted(1500))
    for name in ("map", "sink"):
        made.stage(name, records_in=counted(1500))
    made.channel("source->map", consumed=counted(10), in_flight_records=150)
    made.channel("map->sink", consumed=counted(10), in_flight_records=3150)
    made.time("source", watermark_s=behind(5.2)).time("map", watermark_s=behind(5.3))
    return made.time("sink", **{"watermark_s": behind(7.4, first=2), **sink})


def found_in(made: Any, job: Scenario, round_ms: float = 10.0) -> dict[str, Any]:
    return event_time_summary(made.tables(), job, round_ms)


def test_the_lag_is_taken_apart_hop_by_hop(builder: ModuleType) -> None:
    found = found_in(line(builder), builder.scenario("x", LINE, CHAIN))
    apart = found["apart"]
    hops = [
        (hop["edge"], round(hop["wait_ms"]), hop["in_flight_records"], round(hop["expected_ms"]))
        for hop in apart["hops"]
    ]
    assert hops == [("source->map", 100, 150.0, 100), ("map->sink", 2100, 3150.0, 2100)]
    parts = apart["delay_ms"] + apart["offset_ms"] + apart["at_source_ms"]
    total = parts + sum(hop["wait_ms"] for hop in apart["hops"])
    assert total == pytest.approx(apart["lag_ms"]) == pytest.approx(7400)
    assert (apart["delay_ms"], apart["offset_ms"]) == (5000.0, 0.0)
    assert apart["at_source_ms"] == pytest.approx(200)
    age_ms = (
        1000 * (math.pi * 5 / (2 * 1500)) ** 0.5
    )  # of the largest of 1,500 event times a second
    assert apart["at_source_expected_ms"] == pytest.approx(1 + 100 + age_ms)
    assert apart["expected_ms"] == pytest.approx(5000 + 1 + 100 + age_ms + 100 + 2100)
    assert found["sentences"] == [
        "The watermark at sink lags 7.4 s on average from 10 s on: 5 s are the delay of source, "
        "200 ms pass at source itself, 2.1 s wait in flight at map->sink behind 3,150 records."
    ]
    assert found["matter"] == found["sentences"]


def test_figures_of_a_stage_are_those_of_its_rows(builder: ModuleType) -> None:
    made = line(
        builder,
        watermark_s=[None, *(t - (9 if t <= 10 else 7) for t in TIMES[1:])],
        late_records=counted(2),
        open_windows=[30] * 19 + [4],
        window_state_bytes=[3000] * 19 + [400],
        fired=[10 * int(t // 10) for t in TIMES],
    )
    stages = found_in(made, builder.scenario("x", LINE, CHAIN))["stages"]
    assert stages["sink"] == {
        "lag": {
            "mean_ms": pytest.approx((9 * 9000 + 10 * 7000) / 19),  # none before the second sample
            "second_half_ms": pytest.approx(7000),
            "max_ms": pytest.approx(9000),
            "end_ms": pytest.approx(7000),
        },
        "relative": False,
        "furthest_behind": 0,
        "held_by": {
            "edge": "map->sink", "stage": "map", "subtask": 0, "is_silent": False,
            "lag_ms": pytest.approx(5300), "wait_ms": 2100.0, "in_flight_records": 3150.0,
            "rate": 1500.0,
        },
        "late_records": 40,
        "records_in": 30_000,
        "fired": 20,
        "max_fired": 10,
        "max_open_windows": 30,
        "max_window_state_bytes": 3000,
        "paused_ms_per_s": 0.0,
        "most_paused": None,
        "most_paused_ms_per_s": 0.0,
        "waits_for": None,
        "idle_share": 0.0,
    }  # fmt: skip
    assert stages["source"]["held_by"] is None
    assert list(stages) == ["source", "map", "sink"]


def test_a_lag_that_is_stated_does_not_matter(builder: ModuleType) -> None:
    made = line(builder, watermark_s=behind(5.9))
    job = builder.scenario("x", LINE, CHAIN)
    found = found_in(made, job)
    assert found["sentences"][0].startswith("The watermark at sink lags 5.9 s on average")
    assert found["matter"] == []
    assert found_in(line(builder), job, round_ms=500.0)["matter"] == []  # a round a hop each way


@pytest.mark.parametrize(("lag_s", "told"), [(5.9, False), (6.1, True)])
def test_the_run_is_told_of_a_long_lag_only(builder: ModuleType, lag_s: float, told: bool) -> None:
    job = builder.scenario("x", LINE, CHAIN)
    tables = line(builder, watermark_s=behind(lag_s)).tables()
    made = summarise(tables, job, clock="virtual", rounds=9, wall_s=1, round_ms=10)
    assert made["sentence"].startswith("No bottleneck:")
    assert [one[:32] for one in made["details"]] == ["The watermark at sink lags 6.1 s"] * told
    assert made["event_time"]["stages"]["sink"]["lag"]["end_ms"] == pytest.approx(1000 * lag_s)


def test_without_the_table_there_is_nothing(builder: ModuleType) -> None:
    tables = {name: one for name, one in line(builder).tables().items() if name != "time"}
    job = builder.scenario("x", LINE, CHAIN)
    assert "event_time" not in summarise(
        tables, job, clock="virtual", rounds=9, wall_s=1, round_ms=10
    )


def test_a_run_without_a_sample_has_no_figures(builder: ModuleType) -> None:
    tables = {name: table.slice(0, 0) for name, table in line(builder).tables().items()}
    found = event_time_summary(tables, builder.scenario("x", LINE, CHAIN))
    assert [own["lag"] for own in found["stages"].values()] == [None] * 3
    assert (found["apart"], found["silent"], found["sentences"]) == (None, None, [])


def test_a_missing_column_is_named(builder: ModuleType) -> None:
    tables = line(builder).tables()
    tables["time"] = tables["time"].drop_columns(["fired"])
    with pytest.raises(ValueError, match="result table time lacks fired"):
        event_time_summary(tables, builder.scenario("x", LINE, CHAIN))


PAIR = {"source": {"parallelism": 2, **TIMED}, "sink": {"parallelism": 2}}


def pair(
    builder: ModuleType,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    at_sink: Sequence[Any],
    held: tuple[int, int] = (10, 10),
) -> Any:
    """Return two sources into two sinks; ``held``: in flight from each source."""
    made = builder.Results(TIMES)
    for subtask, own in enumerate((first, second)):
        made.time("source", subtask, **{"watermark_s": behind(5), **own})
        made.stage("source", subtask, records_out=counted(100 * (own != SILENT)))
        made.time("sink", subtask, watermark_s=at_sink)
        made.stage("sink", subtask, records_in=counted(100))
        for sender in (0, 1):
            made.channel(
                "source->sink", sender, subtask,
                consumed=counted(10), in_flight_records=held[sender] * (1 + subtask),
            )  # fmt: skip
    return made


SILENT: dict[str, Any] = {"watermark_s": None}


def test_the_channel_with_most_in_flight_holds_a_watermark_back(builder: ModuleType) -> None:
    made = pair(builder, {}, {}, behind(9), held=(10, 100))
    stages = found_in(made, builder.scenario("x", PAIR, ["source->sink"]))["stages"]
    held = stages["sink"]["held_by"]
    assert (held["stage"], held["subtask"], held["edge"]) == ("source", 1, "source->sink")
    assert held["rate"] == 50.0  # half of what the sink takes up
    assert held["wait_ms"] == 2000.0


def test_the_sender_that_is_furthest_behind_holds_it_back(builder: ModuleType) -> None:
    late = {"watermark_s": behind(8)}
    made = pair(builder, late, {}, behind(9), held=(10, 100))  # 8 + 0.2 against 5 + 2
    found = found_in(made, builder.scenario("x", PAIR, ["source->sink"]))
    assert found["stages"]["source"]["furthest_behind"] == 0
    assert found["stages"]["sink"]["held_by"]["subtask"] == 0
    apart = found["apart"]
    assert (apart["source_subtask"], round(apart["at_source_ms"])) == (0, 3000)
    assert "3 s pass at subtask 0 of source itself" in found["sentences"][0]


def test_nobody_waits_for_an_idle_sender_or_one_that_has_ended(builder: ModuleType) -> None:
    job = builder.scenario("x", PAIR, ["source->sink"])
    ended = {"watermark_s": [t - 9 if t <= 8 else None for t in TIMES]}
    for away in ({"watermark_s": behind(9), "is_idle": True}, {**SILENT, "is_idle": True}, ended):
        found = found_in(pair(builder, away, {}, behind(6)), job)
        assert found["stages"]["sink"]["held_by"]["subtask"] == 1, away
        assert found["apart"]["source_subtask"] == 1
        assert found["silent"] is None


def test_a_sender_without_a_record_that_is_not_idle_stops_event_time(builder: ModuleType) -> None:
    made = pair(builder, {}, SILENT, [None] * 20)
    found = found_in(made, builder.scenario("x", PAIR, ["source->sink"]))
    assert found["silent"] == {
        "stage": "sink", "source": "source", "subtask": 1, "why": "no_records",
    }  # fmt: skip
    assert found["stages"]["sink"]["held_by"]["is_silent"]
    assert found["apart"] is None  # what source 0 lags explains nothing
    assert found["stages"]["sink"]["lag"] is None
    text = (
        "No watermark has reached sink: subtask 1 of source has emitted no record, and is not "
        "idle; state watermark.idle_after_s, and nobody waits for it."
    )
    assert found["sentences"][0] == text
    assert found["matter"] == [text]


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        ({"watermark": None}, {}, ": source states no watermark."),
        ({"event_time": None, "watermark": None}, {}, "the records of source have no event time."),
        ({}, {"pipeline.auto-watermark-interval": 0}, "source is never probed for one"),
        ({"watermark": {"delay_s": 5, "idle_after_s": 60}}, {}, "of source is on its way."),
    ],
    ids=["no watermark", "no event time", "no probes", "on its way"],
)
def test_why_no_watermark_has_come(
    builder: ModuleType, source: dict[str, Any], options: dict[str, Any], text: str
) -> None:
    stated = {key: own for key, own in {**TIMED, **source}.items() if own is not None}
    sources = {"source": {"parallelism": 2, **stated}, "sink": PAIR["sink"]}
    job = builder.scenario("x", sources, ["source->sink"])
    job = job.model_copy(update={"options": job.options.model_copy(update=_fields(options))})
    found = found_in(pair(builder, {}, {}, [None] * 20), job)  # its senders have sent some
    silent = pair(builder, SILENT, SILENT, [None] * 20)
    last_s = max(row["t_s"] for row in silent.rows["stages"])
    for row in silent.rows["stages"]:
        if row["stage"] == "source" and row["t_s"] == last_s:
            row["records_out"] = 1
    assert found["silent"]["why"] == "on_way"
    found = found_in(silent, job)
    assert text in found["sentences"][0]
    assert bool(found["matter"]) == ("on its way" not in text)


def test_a_source_that_had_ended_by_the_first_sample_is_not_waited_for(builder: ModuleType) -> None:
    """Its watermarks came and went between two samples, the last one too."""
    job = builder.scenario("x", {"source": {"parallelism": 2, **TIMED}, "sink": PAIR["sink"]},
                           ["source->sink"])  # fmt: skip
    ended = pair(builder, SILENT, SILENT, [None] * 20)
    for row in ended.rows["stages"]:
        if row["stage"] == "source":
            row["records_out"] = 7
    found = found_in(ended, job)
    assert found["silent"] is None
    assert not any("No watermark" in text for text in found["sentences"])


def test_windows_that_no_watermark_reaches_do_not_fire(builder: ModuleType) -> None:
    made = line(builder, watermark_s=None)
    for row in made.rows["time"]:
        row |= {"watermark_s": None, "watermark_lag_ms": None}
    for row in made.rows["stages"]:
        row |= {"records_in": 0, "records_out": 0}
    found = found_in(made, builder.scenario("x", LINE, CHAIN))
    assert (found["silent"]["stage"], found["silent"]["why"]) == ("map", "no_records")
    [text] = found["matter"]
    assert "is not idle, so no window of sink fires by event time; state" in text


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    return {"watermark_interval_us": 0} if options else {}


def test_a_watermark_that_stands_is_said_to(builder: ModuleType) -> None:
    stands = {"watermark_s": [min(t, 7) - 5 for t in TIMES]}
    made = pair(builder, stands, {}, [min(t, 8) - 6 for t in TIMES])
    for row in made.rows["stages"]:
        if (row["stage"], row["subtask"]) == ("source", 0):
            row["records_out"] = min(row["records_out"], 700)
    found = found_in(made, builder.scenario("x", PAIR, ["source->sink"]))
    assert (found["apart"]["stands_at_s"], found["apart"]["stands_since_s"]) == (2.0, 7.0)
    text = (
        "Event time is held back by subtask 0 of source: its watermark has not moved since 7 s, as "
        "it emits nothing and is not idle; state watermark.idle_after_s, and nobody waits for it."
    )
    assert found["sentences"] == found["matter"] == [text]
    kept = pair(builder, stands, {}, [min(t, 8) - 6 for t in TIMES])  # it emits all the same
    [text] = found_in(kept, builder.scenario("x", PAIR, ["source->sink"]))["sentences"]
    since = "its watermark has not moved since 7 s"
    assert text.endswith(f"{since}, as no record since has a later time.")
    given = builder.scenario("x", PAIR, ["source->sink"])
    rare = given.options.model_copy(update={"watermark_interval_us": 3_600_000_000})
    for more in ({"options": rare}, {"time_model": "spark", "batch_s": 1}):
        found = found_in(kept, given.model_copy(update=more))
        assert found["sentences"][0].endswith(f"{since}.")


def test_the_offset_of_a_source_is_a_part_of_its_own(builder: ModuleType) -> None:
    times = {"event_time": {"offset_s": [0, -3]}, "watermark": {"delay_s": 5}}
    stages = {"source": {"parallelism": 2, **times}, "sink": PAIR["sink"]}
    made = pair(builder, {}, {"watermark_s": behind(8)}, behind(8.2))
    found = found_in(made, builder.scenario("x", stages, ["source->sink"]))
    assert found["apart"]["offset_ms"] == 3000.0
    assert found["sentences"][0] == (
        "The watermark at subtask 0 of sink lags 8.2 s on average from 10 s on: 5 s are the delay "
        "of source, 3 s are the offset of subtask 1 of source, 200 ms wait in flight at "
        "source->sink behind 10 records."
    )
    assert found["matter"] == []  # all of it is stated


def test_of_stages_that_lag_alike_the_last_one_is_taken_apart(builder: ModuleType) -> None:
    made = line(builder, watermark_s=behind(7.4))
    for row in made.rows["time"]:
        row |= {"watermark_s": row["t_s"] - 7.4, "watermark_lag_ms": 7400.0}
    assert found_in(made, builder.scenario("x", LINE, CHAIN))["apart"]["stage"] == "sink"


def test_a_watermark_that_moved_once_does_not_stand(builder: ModuleType) -> None:
    moved = {"watermark_s": [1 if t <= 15 else 9 for t in TIMES]}
    apart = found_in(
        pair(builder, moved, {}, moved["watermark_s"]),
        builder.scenario("x", PAIR, ["source->sink"]),
    )["apart"]
    assert (apart["source_subtask"], apart["stands_since_s"]) == (0, None)


def test_what_an_idle_subtask_lags_does_not_count(builder: ModuleType) -> None:
    job = builder.scenario("x", PAIR, ["source->sink"])
    rests = [11 <= t <= 14 for t in TIMES]
    marks = [t - (1000 if rest else 8) for t, rest in zip(TIMES, rests, strict=True)]
    made = pair(builder, {"watermark_s": marks, "is_idle": rests}, {}, behind(9))
    found = found_in(made, job)
    assert found["stages"]["source"]["lag"]["max_ms"] == pytest.approx(8000)
    assert found["apart"]["at_source_ms"] == pytest.approx(3000)
    assert found["apart"]["lag_ms"] == pytest.approx(9000)
    assert found["stages"]["source"]["idle_share"] == pytest.approx(4 / 40)


def test_rows_with_their_own_times_are_behind_the_furthest_source(builder: ModuleType) -> None:
    job = builder.scenario("x", PAIR, ["source->sink"])
    rows = job.stages[0].event_time.model_copy(update={"column": "at"})
    own = job.stages[0].model_copy(update={"event_time": rows})
    job = job.model_copy(update={"stages": (own, job.stages[1])})
    start = 1_000_000.0  # an hour of the rows takes a second of the run
    fast = {"watermark_s": [start + 3600 * t for t in TIMES]}
    slow = {"watermark_s": [start + 3600 * t - 900 for t in TIMES]}
    made = pair(builder, fast, slow, [start + 3600 * t - 4500 for t in TIMES], held=(10, 50))
    found = found_in(made, job)
    assert found["stages"]["source"]["lag"]["max_ms"] == pytest.approx(900_000)
    apart = found["apart"]
    assert (apart["relative"], round(apart["speed"])) == (True, 3600)
    assert apart["at_source_ms"] == pytest.approx(900_000)
    [hop] = apart["hops"]
    assert hop["wait_ms"] == pytest.approx(3_600_000) == pytest.approx(hop["expected_ms"])
    assert apart["expected_ms"] is None
    assert found["sentences"][0] == (
        "The watermark at subtask 0 of sink lags 75 min of event time behind the furthest source "
        "on average from 10 s on: subtask 1 of source itself is 15 min behind, 60 min wait in "
        "flight at source->sink behind 50 records."
    )
    assert found["matter"]  # 4,500 s of event time are 1.25 s of the run


def test_lags_of_rows_with_their_own_times_do_not_need_the_clock(builder: ModuleType) -> None:
    job = builder.scenario("x", PAIR, ["source->sink"])
    rows = job.stages[0].event_time.model_copy(update={"column": "at"})
    own = job.stages[0].model_copy(update={"event_time": rows})
    job = job.model_copy(update={"stages": (own, job.stages[1])})
    gone = {"watermark_s": [100 + t if t <= 10 else None for t in TIMES]}
    frame = time_frame(pair(builder, gone, gone, [90 + t for t in TIMES]).tables(), job)
    sink = frame[(frame["stage"] == "sink") & (frame["subtask"] == 0)]
    assert sink["lag_ms"].tolist() == [
        10_000.0 if t <= 10 else 1000 * (110 - 90 - t) for t in TIMES
    ]


@pytest.mark.parametrize(
    ("times", "idle", "text"),
    [
        ({"out_of_orderness_s": 8}, False,
         ": records of source lie up to 8 s behind, and its watermark waits 5 s."),
        ({"out_of_orderness_s": 2, "distribution": "exponential"}, False,
         ": records of source lie 2 s behind on average, without a bound, and its watermark waits "
         "5 s."),
        ({"out_of_orderness_s": 5}, True,
         ": source was idle for a while, so nobody waited for it."),
        ({"out_of_orderness_s": 5}, False, "."),
    ],
    ids=["more than the delay", "exponential", "idle", "unknown"],
)  # fmt: skip
def test_late_records_are_counted_and_explained(
    builder: ModuleType, times: dict[str, Any], idle: bool, text: str
) -> None:
    stages = {**LINE, "source": {"event_time": times, "watermark": {"delay_s": 5}}}
    made = line(builder, watermark_s=behind(5.5), late_records=counted(36))
    for row in made.rows["time"]:
        row["is_idle"] = idle and row["stage"] == "source" and row["t_s"] == 3
    found = found_in(made, builder.scenario("x", stages, CHAIN))
    assert found["matter"] == [
        f"720 of the 30,000 records of sink (2.4 %) came too late for its windows{text}"
    ]


def test_sources_that_wait_for_one_another_are_named(builder: ModuleType) -> None:
    group = {"delay_s": 5, "alignment": {"group": "g", "max_drift_s": 2}}
    fast = {"event_time": {}, "watermark": group, "parallelism": 2}
    stages = {"fast": fast, "slow": {"event_time": {}, "watermark": group}, "sink": WINDOW}
    made = builder.Results(TIMES)
    for subtask, paused in enumerate((480, 10)):
        made.time("fast", subtask, watermark_s=behind(5), paused_ms_per_s=paused)
    made.time("slow", watermark_s=[t / 2 - 5 for t in TIMES])
    made.time("sink", watermark_s=[t / 2 - 5 for t in TIMES])
    found = found_in(made, builder.scenario("x", stages, ["fast->sink", "slow->sink"]))
    own = found["stages"]["fast"]
    assert (own["paused_ms_per_s"], own["most_paused"], own["most_paused_ms_per_s"]) == (
        245.0, 0, 480.0,
    )  # fmt: skip
    assert own["waits_for"] == {"stage": "slow", "subtask": 0}
    text = (
        "Alignment paused subtask 0 of fast 48 % of the time: its event time was ahead of that of "
        "slow, the slowest of its group."
    )
    assert text in found["sentences"]
    assert text in found["matter"]
    assert len(found["matter"]) == 2


def test_windows_say_what_they_held(builder: ModuleType) -> None:
    made = line(
        builder, watermark_s=behind(5.5),
        open_windows=3000, window_state_bytes=300_000, fired=[1000 * int(t // 10) for t in TIMES],
    )  # fmt: skip
    found = found_in(made, builder.scenario("x", LINE, CHAIN))
    assert found["sentences"][-1] == (
        "sink held up to 3,000 windows at a sample, 293 KiB; it fired 2,000 results, up to 1,000 "
        "between two samples."
    )
    assert found["matter"] == []


def test_windows_that_open_and_close_between_two_samples(builder: ModuleType) -> None:
    made = line(builder, watermark_s=behind(5.5), fired=[min(1, int(t // 10)) for t in TIMES])
    found = found_in(made, builder.scenario("x", LINE, CHAIN))
    assert found["sentences"][-1] == (
        "sink held no window at any sample; it fired 1 result, up to 1 between two samples."
    )


def test_a_chained_hop_has_no_channels_and_no_wait(builder: ModuleType) -> None:
    made = line(builder)
    made.rows["channels"] = [row for row in made.rows["channels"] if row["edge"] != "source->map"]
    apart = found_in(made, builder.scenario("x", LINE, CHAIN))["apart"]
    assert [hop["in_flight_records"] for hop in apart["hops"]] == [0.0, 3150.0]
    assert apart["hops"][0]["expected_ms"] == 0.0


def test_records_of_two_edges_are_told_apart_by_their_size(builder: ModuleType) -> None:
    big, small = {"record_bytes": 1000}, {"record_bytes": 100}
    stages = {"big": {**TIMED, **big}, "small": {**TIMED, **small}, "sink": WINDOW}
    made = builder.Results(TIMES).stage("sink", records_in=counted(110))
    for name in ("big", "small"):
        made.channel(f"{name}->sink", consumed=counted(10), in_flight_records=50)
        made.time(name, watermark_s=behind(5))
    made.time("sink", watermark_s=behind(10))
    found = found_in(made, builder.scenario("x", stages, ["big->sink", "small->sink"]))
    held = found["stages"]["sink"]["held_by"]
    assert (held["stage"], held["rate"], held["wait_ms"]) == ("big", 10.0, 5000.0)


def test_a_channel_that_nothing_is_taken_off_holds_everything_back(builder: ModuleType) -> None:
    made = pair(builder, {}, {"watermark_s": behind(8)}, behind(9))
    for row in made.rows["channels"]:
        row["consumed"] *= row["sender"]
    found = found_in(made, builder.scenario("x", PAIR, ["source->sink"]))
    held = found["stages"]["sink"]["held_by"]
    assert (held["subtask"], held["wait_ms"]) == (0, None)
    assert found["apart"]["expected_ms"] is None


def test_the_table_may_be_read_as_it_is_declared(builder: ModuleType) -> None:
    table = line(builder).tables()["time"]
    assert table.schema.equals(TIME.arrow_schema())
    assert isinstance(table, pa.Table)
