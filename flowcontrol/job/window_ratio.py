"""How many results a window has per record in the long run, worked out before a run.

An estimate, from the rate at which records come, their keys and the sizes of windows: rates of
chains, warnings and limits ask for it. Rates are means over the run, and keys alike.
"""

from fractions import Fraction

from flowcontrol.protocol.ratios import ratio_of
from flowcontrol.scenario import Scenario, Stage
from flowcontrol.scenario.windows import WindowPlan

_MS = 1000


def window_ratio(scenario: Scenario, stage: Stage) -> Fraction | None:
    """Return the results per record of a stage's window; None: it has none.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.
    stage : Stage
        A stage of it.
    """
    window = scenario.window_of(stage.name)
    if window is None:
        return None
    return _ratio(scenario, window, _rate_into(scenario, stage))


def results_per_record(window: WindowPlan, rate: Fraction, duration_s: Fraction) -> Fraction:
    """Return the results per record of a window.

    Parameters
    ----------
    window : WindowPlan
        The window.
    rate : Fraction
        Records/s of all keys together, above 0.
    duration_s : Fraction
        Length of the run, s.

    Notes
    -----
    An event-time or processing-time trigger fires once for each window of a key that has a record:
    for each of its windows a record, or for each key a slide, whichever is less. A count fires once
    every n records of a window, a continuous trigger once an interval too.
    """
    keys = window.keys or 1
    per_key = rate / keys  # records/s
    windows, length_s = _windows_of_record(window, duration_s)
    records = max(Fraction(1), per_key * length_s)  # of a window that has one
    if window.kind == "session":
        # A record ends a session if none follows within the gap: exp(-x) <= 1 / (1 + x + x^2/2).
        expected = per_key * Fraction(window.gap_ms, _MS)
        records = 1 + expected + expected**2 / 2
    if window.trigger == "count":
        return windows / window.every
    firings = Fraction(1)
    if window.trigger == "continuous":
        firings += length_s * _MS / window.every
    return windows * firings / records


def _windows_of_record(window: WindowPlan, duration_s: Fraction) -> tuple[Fraction, Fraction]:
    """Return how many windows a record is in on average, and how long one is, s."""
    if window.kind in {"tumbling", "sliding"}:
        return Fraction(window.size_ms, window.slide_ms), Fraction(window.size_ms, _MS)
    if window.kind == "session":
        return Fraction(1), Fraction(window.gap_ms, _MS)
    return Fraction(1), duration_s


def _ratio(scenario: Scenario, window: WindowPlan, rate: Fraction) -> Fraction:
    if rate <= 0:
        return Fraction(1)
    duration_s = Fraction(scenario.duration_us, 1_000_000)
    return ratio_of(results_per_record(window, rate, duration_s))


def _rate_into(scenario: Scenario, stage: Stage) -> Fraction:
    """Records/s that reach a stage in the mean over the run, if nothing holds them up."""
    found = Fraction(0)
    for edge in scenario.inputs(stage.name):
        sender = scenario.stage(edge.sender)
        copies = stage.parallelism if edge.partitioner == "broadcast" else 1
        found += _rate_out_of(scenario, sender) * copies
    return found


def _rate_out_of(scenario: Scenario, stage: Stage) -> Fraction:
    """Records/s that a stage puts out, likewise."""
    own = _own_rate(scenario, stage)
    if stage.is_source:
        rate = own or Fraction(0)
    else:
        rate = _rate_into(scenario, stage)
        rate = rate if own is None else min(rate, own)
        window = scenario.window_of(stage.name)
        if window is not None:
            return rate * _ratio(scenario, window, rate)
    return rate * stage.selectivity_exact


def _own_rate(scenario: Scenario, stage: Stage) -> Fraction | None:
    """Records/s that a stage's subtasks emit or serve together; None: any number."""
    duration_us, total = scenario.duration_us, Fraction(0)
    schedules = [stage.rates(index) for index in range(stage.parallelism)]
    arrivals = stage.arrival_rate or (None,) * stage.parallelism
    for schedule, arrival in zip(schedules, arrivals, strict=True):
        known = [one.records_until(duration_us) for one in (schedule, arrival) if one is not None]
        if not known:
            return None
        total += Fraction(min(known) * 1_000_000, duration_us)
    return total
