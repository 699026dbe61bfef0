"""Flink's data skew score."""

from collections.abc import Iterable


def data_skew(figures: Iterable[float]) -> float:
    """Return Flink's data skew score.

    Parameters
    ----------
    figures : iterable of float
        One per subtask, none negative; Flink takes their numRecordsInPerSecond.

    Returns
    -------
    float, %
        The mean distance from the mean, in per cent of the mean, at most 100; 0 if the mean is 0.

    Raises
    ------
    ValueError
        If a figure is negative or not a number.

    Notes
    -----
    ``DoubleAccumulator.DoubleDataSkew`` of Flink 1.20 and later (FLIP-418), the column "Data Skew"
    of its web interface. It passes 50 only if few subtasks take nearly all: one of four with
    twice what each of the others takes makes 30 %.

    Examples
    --------
    >>> data_skew([100, 100, 100, 200])
    30.0
    """
    values = list(figures)
    for value in values:
        if not value >= 0:
            raise ValueError(f"a figure is at least 0, not {value}")
    mean = sum(values) / len(values) if values else 0.0
    if mean == 0:
        return 0.0
    deviation = sum(abs(value - mean) for value in values) / len(values)
    return min(100.0 * deviation / mean, 100.0)
