"""A server's clock in whole numbers: how much work a rate allows by a moment, and when.

A rate over time is rows of :data:`PHASE_WIDTH` integers. Work is counted in units so small that
every rate is a whole number of units a microsecond; a record of mean size is ``unit`` of them.
With constant service times a backlogged server then takes exactly floor(integral of its rate).
What lives here: arithmetic. What must not: random numbers, schedules as users write them.
"""

from math import cos, exp, log, log1p, pi, sqrt

from flowcontrol.protocol.ratios import MOST
from flowcontrol.protocol.rows import Rows

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

    Parameters
    ----------
    phases : rows of int, shape (phases, PHASE_WIDTH)
        In the order of time; the first starts at 0.
    us : int
        Microseconds since the start.
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

    Parameters
    ----------
    phases : rows of int, shape (phases, PHASE_WIDTH)
        Its rate, as :func:`work_by` takes it.
    us : int
        The moment, microseconds since the start.
    taken, limit : int
        Records emitted, and those that it has; -1: no end.

    Notes
    -----
    A rate that comes to 0 is how a schedule says that the input ends. One that was never anything
    else is a partition that nobody writes to: Flink's source waits for it, and its watermark with
    it.
    """
    if limit >= 0 and taken >= limit:
        return 1
    last = phases[len(phases) - 1]
    is_over = last[PHASE_RATE] == 0 and us >= last[PHASE_START]
    return 1 if is_over and last[PHASE_BASE] > 0 else 0


def stands_still(spans: Rows, us: int) -> int:
    """End of the standstill in which a moment lies, or NEVER.

    Parameters
    ----------
    spans : rows of int, shape (standstills, 2)
        First microsecond of each, and the first after it, in the order of time.
    us : int
        Microseconds since the start.
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

    Parameters
    ----------
    kind : int
        CONSTANT, EXPONENTIAL or LOGNORMAL.
    cv : float
        Coefficient of variation of a lognormal time.
    first, second : float
        Uniform in [0, 1); the second is used by LOGNORMAL only.

    Notes
    -----
    Exponential by inversion; lognormal from a normal number after Box and Muller (1958), with
    mean 1: mu = -sigma^2 / 2, sigma^2 = ln(1 + cv^2).
    """
    if kind == CONSTANT:
        return 1.0
    if kind == EXPONENTIAL:
        return -log1p(-first)
    variance = log(1.0 + cv * cv)
    normal = sqrt(-2.0 * log1p(-first)) * cos(2.0 * pi * second)
    return exp(sqrt(variance) * normal - variance / 2.0)
