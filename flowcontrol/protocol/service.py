"""Rates and random times as whole numbers, and the work of a server in them.

A rate over time is rows of :data:`PHASE_WIDTH` integers. Work is counted in units so small that
every rate is a whole number of units a microsecond; a record of mean size is ``unit`` of them.
With constant service times a backlogged server then takes exactly floor(integral of its rate).
What lives here: arithmetic. What must not: random numbers, schedules as users write them.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import cos, exp, isqrt, lcm, log, log1p, pi, sqrt

from flowcontrol.state.rows import Rows

# --- How a scenario's number becomes whole numbers, and how rules multiply those within 64 bits.
#
# A number is first the shortest decimal that reads back as its double: 0.1 is a tenth. Then
# it is one of three things, exact where that fits:
#
# - **A ratio** (a selectivity, the nanoseconds that a byte takes): the nearest fraction of all
# whose
#   numerator x denominator is at most MOST (ratio_of). Largest error: 6.6e-10 of
#   itself, near 1; less elsewhere. 0.3333333333333333 is a third. Below 1 / MOST it counts as that,
#   above MOST as MOST: no run is so long that it could tell.
# - **Rates** (of one task): whole numbers over a common denominator, as large as the records of the
#   run allow (whole_rates). With n records and t microseconds in the run, a rate whose
#   digits do not fit is off by at most min(n, t) / MOST of itself where it is the task's only one:
# 1e-9 at 2.3e9 records. Of several over time those of few digits stay exact, the others are off by
#   at most n x t / MOST records in all: half of one in an hour at 320,000 records/s.
# - **Shares** (of channels): whole numbers whose sum is at most MOST_SHARES
#   (whole_shares). Largest error: 2^-57 of the whole; one that is not 0 stays so.
#
# What lives here: arithmetic of two clocks. What must not: what the numbers mean.


MOST = 1 << 61
"""Bound of a ratio's numerator x denominator, and of all that a rule counts in a run."""

MOST_SHARES = 1 << 56
"""Bound of the sum of shares: what a channel is behind is less than 12 times that (log of 32,768
channels + 1, as in every game in which the fullest cup is emptied)."""

FITS = 4.0e18
"""Products that are less, about, fit into 64 bits; as a double, for the product itself may not."""

BITS = 62


def ratio_of(value: Fraction) -> Fraction:
    """Return the fraction that stands for a positive number: the nearest that rules can multiply.

    ``value``: exact, at least 0.

    Numerator x denominator is at most :data:`MOST`; 0 for 0.
    """
    least, most = Fraction(1, MOST), Fraction(MOST)
    if value == 0:
        return value
    if value <= least or value >= most:
        return min(max(value, least), most)
    finest = max(1, isqrt((MOST - 2) * value.denominator // value.numerator))
    return value.limit_denominator(finest)


def whole_rates(rates: Sequence[Fraction], most: int, grain: int) -> tuple[list[int], int]:
    """Return whole numbers in proportion to some rates, and the one that stands for 1.

    - ``rates``: at least one, none negative.
    - ``most``: largest number that may stand for 1.
    - ``grain``: a divisor of the number that stands for 1, where that leaves all rates exact.

    A rate that is not 0 is at least 1.
    """
    parts = {rate.denominator for rate in rates}
    for exact in (lcm(grain, *parts), lcm(*parts)):
        if exact <= most:
            return [int(rate * exact) for rate in rates], exact
    common = 1
    for part in (grain, *sorted(parts)):
        common = both if (both := lcm(common, part)) <= most else common
    if len({rate for rate in rates if rate}) == 1:
        common = max(rates).limit_denominator(most).denominator
    whole = most // common * common
    return [max(1, round(rate * whole)) if rate else 0 for rate in rates], whole


def whole_shares(shares: Sequence[int]) -> list[int]:
    """Return shares whose sum is at most :data:`MOST_SHARES`, or a little more by rounding up."""
    total = sum(shares)
    if total <= MOST_SHARES:
        return list(shares)
    return [max(1, round(Fraction(share * MOST_SHARES, total))) if share else 0 for share in shares]


def capped(count: int, numerator: int, denominator: int) -> int:
    """Return a count times a ratio, rounded down, or :data:`MOST` if that is less."""
    whole = count // denominator
    if 1.0 * whole * numerator > FITS:
        return MOST
    rest = count - whole * denominator
    return min(MOST, whole * numerator + rest * numerator // denominator)


def proportion(whole: int, part: int, total: int) -> int:
    """Return whole x part / total, rounded down.

    Where the product might not fit, by long division, a bit of ``whole`` at a time.

    - ``whole``: at least 0, at most :data:`MOST`.
    - ``part``, ``total``: 0 <= part <= total, 0 < total <= :data:`MOST`.
    """
    if 1.0 * whole * part < FITS:
        return whole * part // total
    quotient = 0
    rest = 0
    for place in range(BITS):
        quotient += quotient
        rest += rest + (whole >> (BITS - 1 - place) & 1) * part
        while rest >= total:
            rest -= total
            quotient += 1
    return quotient


# --- Where a round's time goes: busy, idle, back-pressured (reference section 9); flusher's
# ticks.
#
# Pure functions of integers.


FLUSH_DRIFTS = 3
"""How many periods flushers of one interval have."""


def blocked_source_us(whole: int, due: int, done: int, is_stopped: int, is_available: int) -> int:
    """Back-pressured time of a source in a round, microseconds; the rest it emits or is idle.

    - ``whole``: length of the round, microseconds.
    - ``due``, ``done``: records that fell due, and those of them that were emitted; the others are
      lost.
    - ``is_stopped``: 1: it stopped because its output was unavailable.
    - ``is_available``: 1: its output is available at the end of the round.
    """
    if due == 0:
        return 0 if is_available == 1 else whole
    return proportion(whole, due - done, due) if is_stopped == 1 else 0


def emitting_us(free_us: int, records: int, cost_ns: int) -> int:
    """Busy time of a source in a round, microseconds: what its emissions cost its thread.

    Flink counts as busy what is neither idle nor back-pressured (section 9). The cost limits
    nothing: a source that emits more than its thread could is busy all the time that it has.

    - ``free_us``: time of the round that was not back-pressured, microseconds.
    - ``cost_ns``: what one takes to be serialised and copied into buffers, nanoseconds, at least 0.
    """
    if cost_ns == 0:
        return 0
    if records > free_us * 1000 // cost_ns:  # their product might not fit into 64 bits
        return free_us
    return records * cost_ns // 1000


def blocked_relay_us(whole: int, waiting: int, done: int, is_stopped: int) -> int:
    """Back-pressured time of a stage that works in no time: the share of what waits."""
    if is_stopped == 0:
        return 0
    return proportion(whole, waiting, max(1, done + waiting))


def busy_us(
    whole: int, start: int, end: int, ready: int, waiting: int, is_stopped: int, is_available: int
) -> int:
    """Busy time of a server in a round, microseconds.

    A server works without a pause from the start of the round until it starves or is blocked.
    One that stands still with something to do counts as busy, as a hung sink does in Flink.

    - ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    - ``ready``: work by which the last record taken up is done, units.
    """
    if ready >= end > start:
        return whole
    if end > start:
        return proportion(whole, min(ready, end) - start, end - start)
    has_work = waiting > 0 or ready > start
    return whole if has_work and is_stopped == 0 and is_available == 1 else 0


def is_blocked(start: int, end: int, is_stopped: int, is_available: int) -> int:
    """Tell whether a server's time that it was not busy is back-pressure: 1, or 0 for idle."""
    return 1 if is_stopped == 1 or (end == start and is_available == 0) else 0


def flush_ticks(start_us: int, end_us: int, interval_us: int, phase_us: int) -> int:
    """How often the periodic flusher runs after ``start_us``, up to ``end_us``.

    ``OutputFlusher`` (section 2.6). Its timer drifts against everything else with the same beat,
    so that what waits for it waits half an interval in the long run, whatever the phase. Here a
    period is a little shorter than the interval, so that nothing ever waits for longer.

    - ``start_us``, ``end_us``: times of the run, microseconds.
    - ``interval_us``: of the flusher; 0 is after every record, which is once a round; below 0
      never.
    - ``phase_us``: when it runs first, microseconds, less than an interval; 0: after a whole one.
    """
    if interval_us <= 0:
        return 1 if interval_us == 0 else 0
    return _ticks_by(end_us, interval_us, phase_us) - _ticks_by(start_us, interval_us, phase_us)


def next_flush_us(after_us: int, interval_us: int, phase_us: int) -> int:
    """First moment after ``after_us`` at which the periodic flusher runs, microseconds."""
    first_us = phase_us if phase_us > 0 else interval_us
    ticks = _ticks_by(after_us, interval_us, phase_us)
    return first_us + ticks * flush_period_us(interval_us, phase_us)


def flush_period_us(interval_us: int, phase_us: int) -> int:
    """Time between two ticks of a flusher, microseconds: 0.5, 1 or 1.5 per cent less than stated.

    Which one its phase says, so that flushers behind one another do not keep step.
    """
    return interval_us - interval_us // 200 * (1 + phase_us % FLUSH_DRIFTS)


def _ticks_by(us: int, interval_us: int, phase_us: int) -> int:
    """Ticks of the flusher up to a moment."""
    first_us = phase_us if phase_us > 0 else interval_us
    return max(0, (us - first_us) // flush_period_us(interval_us, phase_us) + 1)


# --- A server's clock in whole numbers: how much work a rate allows by a moment, and when.


PHASE_START = 0  # first microsecond of the phase
PHASE_BASE = 1  # work done by then, units
PHASE_RATE = 2  # units a microsecond from then on
PHASE_WIDTH = 3

NEVER = -1
"""In place of a moment that does not come."""

LONGEST = float(MOST)
"""Work of a record that no run ends, units."""

CONSTANT = 0
EXPONENTIAL = 1
LOGNORMAL = 2


def work_by(phases: Rows, us: int) -> int:
    """Work that a server which never rested would have done by a moment, units.

    - ``phases`` (shape (phases, PHASE_WIDTH)): in the order of time; the first starts at 0.
    - ``us``: microseconds since the start.
    """
    phase = phases[phase_at(phases, us)]
    return phase[PHASE_BASE] + phase[PHASE_RATE] * (us - phase[PHASE_START])


def first_us_at(phases: Rows, work: int, since_us: int) -> int:
    """First microsecond from ``since_us`` on by which so much work is done, or NEVER."""
    index = phase_at(phases, since_us)
    while True:
        phase = phases[index]
        rate, moment = phase[PHASE_RATE], since_us
        if phase[PHASE_BASE] + rate * (since_us - phase[PHASE_START]) < work:
            if rate > 0:
                missing = work - phase[PHASE_BASE]
                moment = phase[PHASE_START] + (missing + rate - 1) // rate
            else:
                moment = NEVER
        index += 1
        if index == len(phases):
            return moment
        if moment != NEVER and moment <= phases[index][PHASE_START]:
            return moment
        since_us = phases[index][PHASE_START]


def first_us_beyond(phases: Rows, work: int, since_us: int) -> int:
    """First microsecond from ``since_us`` on by which more than so much work is done, or NEVER."""
    return first_us_at(phases, work + 1, since_us)


def has_ended(phases: Rows, us: int, taken: int, limit: int) -> int:
    """Tell whether nothing falls due at a source any more: 1 if so.

    A rate that comes to 0 is how a schedule says that the input ends. One that was never anything
    else is a partition that nobody writes to: Flink's source waits for it, and its watermark with
    it.

    - ``phases`` (shape (phases, PHASE_WIDTH)): its rate, as :func:`work_by` takes it.
    - ``us``: the moment, microseconds since the start.
    - ``taken``, ``limit``: records emitted, and those that it has; -1: no end.
    """
    if limit >= 0 and taken >= limit:
        return 1
    last = phases[len(phases) - 1]
    is_over = last[PHASE_RATE] == 0 and us >= last[PHASE_START]
    return 1 if is_over and last[PHASE_BASE] > 0 else 0


def stands_still(spans: Rows, us: int) -> int:
    """End of the standstill in which a moment lies, or NEVER.

    - ``spans`` (shape (standstills, 2)): first microsecond of each, and the first after it, in the
      order of time.
    - ``us``: microseconds since the start.
    """
    for i in range(len(spans)):
        if spans[i][0] <= us and us < spans[i][1]:
            return spans[i][1]
    return NEVER


def phase_at(phases: Rows, us: int) -> int:
    """Index of the phase in force."""
    low, high = 0, len(phases) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if phases[middle][PHASE_START] > us:
            high = middle - 1
        else:
            low = middle
    return low


def service_work(kind: int, cv: float, first: float, second: float, unit: int) -> int:
    """Work that one record takes, units: at least 1, and at most more than any run does.

    Parameters are those of :func:`relative_time`; ``unit`` is the work of a mean record.
    """
    return max(1, int(min(relative_time(kind, cv, first, second) * unit, LONGEST)))


def relative_time(kind: int, cv: float, first: float, second: float) -> float:
    """Service time of one record over the mean.

    Exponential by inversion; lognormal from a normal number after Box and Muller (1958), with
    mean 1: mu = -sigma^2 / 2, sigma^2 = ln(1 + cv^2).

    ``first``, ``second``: uniform in [0, 1); the second is used by LOGNORMAL only.
    """
    if kind == CONSTANT:
        return 1.0
    if kind == EXPONENTIAL:
        return -log1p(-first)
    variance = log(1.0 + cv * cv)
    normal = sqrt(-2.0 * log1p(-first)) * cos(2.0 * pi * second)
    return exp(sqrt(variance) * normal - variance / 2.0)
