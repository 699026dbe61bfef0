"""The key figures of a run, and its line: clock, length and rounds."""

from collections.abc import Iterator, Mapping
from typing import Any

from flowcontrol.analysis.wording import join_words, seconds
from flowcontrol.report.markup import key_figure
from flowcontrol.report.numbers import bytes_text, milliseconds, number, percent, rate
from flowcontrol.scenario import Scenario

CLOCKS = {"live": "Structured Streaming, live", "virtual": "virtual clock"}


def run_line(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return clock, length and rounds of a run in one line."""
    emulated = seconds(summary["emulated_s"])
    is_whole = summary["emulated_s"] >= scenario.duration_s * 0.999
    length = f"{emulated} s emulated" if is_whole else (
        f"ended early, {emulated} of {seconds(scenario.duration_s)} s emulated"
    )  # fmt: skip
    return " · ".join(
        [
            CLOCKS.get(summary["clock"], summary["clock"]),
            f"{length} in {seconds(summary['wall_s'])} s",
            f"{summary['rounds']:,} rounds of {milliseconds(summary['round_ms'])}"
            + (" (chosen)" if summary.get("round_is_chosen") else ""),
            *_round_error(summary),
        ]
    )


def says_nothing_of_the_job(summary: Mapping[str, Any]) -> bool:
    """Tell whether the length of the rounds limited a run, so that it shows nothing of its job."""
    return bool(summary["bottleneck_detail"].get("is_of_round"))


def _round_error(summary: Mapping[str, Any]) -> list[str]:
    """Return the latency that whole rounds add, if it is known."""
    if "round_error_ms" not in summary:
        return []
    return [f"whole rounds add up to {milliseconds(summary['round_error_ms'])} to a latency"]


def key_figures(summary: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return the figures of a run that come first.

    Returns markup: records emitted, processed, blocked time, in flight, and any latency.
    """
    stages = {name: stage["whole"] for name, stage in summary["stages"].items()}
    sources = [stage.name for stage in scenario.sources]
    sinks = [stage.name for stage in scenario.sinks]
    figures = [
        key_figure(
            "Producers emitted",
            rate(sum(stages[name]["rate_out"] for name in sources)),
            f"{number(sum(stages[name]['records_out'] for name in sources))} records in all",
        ),
        key_figure(
            "Consumers took up",
            rate(sum(stages[name]["rate_in"] for name in sinks)),
            f"{number(sum(stages[name]['records_in'] for name in sinks))} records in all"
            + "".join(f"; {text}" for text in _between(scenario)),
        ),
        _blocked(stages),
        _in_flight(summary),
    ]
    lags = summary.get("lags", ())
    if lags:
        worst = max(lags, key=lambda lag: float(lag["max_s"]))
        figures.append(_lag(worst, is_only=len(lags) == 1))
    latencies = [stages[name]["latency"] for name in sinks if stages[name]["latency"]]
    return figures + ([_latency(latencies)] if latencies else [])


def _between(scenario: Scenario) -> Iterator[str]:
    """Yield why consumers take up more or fewer records than producers emit, though none is lost.

    Several sinks behind one stage each take up all of its records, as if these were broadcast.
    """
    for stage in scenario.stages:
        if stage.window is not None:
            yield f"{stage.name} puts out results of windows, not each record"
        elif stage.selectivity_exact != 1:
            yield f"{stage.name} emits {float(stage.selectivity_exact):g} records for each"
    for edge in scenario.edges:
        if edge.partitioner == "broadcast":
            yield f"{edge.name} copies each record to all subtasks"
    several = [stage.name for stage in scenario.stages if _edges_out(scenario, stage.name) > 1]
    if several:
        yield f"each edge of {join_words(several)} carries all its records"


def _edges_out(scenario: Scenario, stage: str) -> int:
    return sum(edge.sender == stage for edge in scenario.edges)


def _blocked(stages: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the share of time of the most blocked subtask."""
    key = "worst_backpressured_ms_per_s"
    worst = max(stages, key=lambda name: stages[name][key])
    share = stages[worst][key] / 1000
    note = worst if share > 0 else "nothing was blocked"
    return key_figure("Most blocked", f"{percent(share)} of the time", note)


def _in_flight(summary: Mapping[str, Any]) -> str:
    """Return the data in flight between all stages."""
    edges = [edge["whole"] for edge in summary["edges"].values()]
    records = sum(edge["in_flight_records"] for edge in edges)
    size = sum(edge["in_flight_bytes"] for edge in edges)
    return key_figure(
        "In flight", f"{number(records)} records", f"{bytes_text(size)}, mean over the run"
    )


def _latency(latencies: list[Mapping[str, Any]]) -> str:
    """Return the latency of the slowest sink."""
    worst = max(latencies, key=lambda latency: float(latency["p50_ms"]))
    median, high = (milliseconds(worst[key]) for key in ("p50_ms", "p99_ms"))
    sink = "" if len(latencies) == 1 else " at the slowest sink"
    return key_figure("Latency", f"{median} median", f"p99 {high}{sink}")


def _lag(lag: Mapping[str, Any], *, is_only: bool) -> str:
    """Return how far a source was behind its log."""
    after = lag["caught_up_after_s"]
    note = "kept up" if lag["kept_up"] else "has not caught up"
    if after is not None:
        note = f"caught up after {seconds(after)} s"
    name = "" if is_only else f"{lag['stage']}: "
    records = f"{number(lag['max_records'])} records at most"
    return key_figure("Behind the log", f"{seconds(lag['max_s'])} s", f"{name}{records}, {note}")
