"""A parallelism that key groups or partitions divide well.

Source: Flink Kubernetes operator, ``ParallelismAligner``, ``BuiltInAlignmentMode`` and
``KeyGroupOrPartitionsAdjustMode``; of release 1.15, ``JobVertexScaler.scale``.
"""

MODES = {
    "head": ("balanced", "evenly_spread", "off", "maximise_utilisation"),
    "1.15": ("evenly_spread", "maximise_utilisation", "balanced"),
}
"""Modes by version. In 1.15 ``balanced``, the default here, stands for the default there."""


def align_parallelism(
    current: int,
    target: int,
    partitions: int = 0,
    max_parallelism: int = 128,
    mode: str = "balanced",
    lower: int = 1,
    upper: int = 200,
    version: str = "head",
) -> int:
    """Return the parallelism to take in the place of one that was worked out.

    The first parallelism from the target upwards is taken that divides the N key groups or
    partitions or, but for ``evenly_spread``, leaves a subtask fewer of them. A scale-up looks as
    far as N and the limits allow, a scale-down as far as the current one. If there is none, head
    keeps the target; 1.15 goes down to the smallest that leaves a subtask no more of them. Head
    takes no target above N, unless the mode is ``off`` (FLINK-40389): a subtask without a partition
    is idle.

    - ``partitions``: of the source; 0: what is aligned to is the key groups, ``max_parallelism``.
    - ``mode``: ``balanced``, ``evenly_spread`` or ``off``; ``maximise_utilisation`` is the old
      key's, with the rules of 1.15. In 1.15 ``balanced`` stands for its default, ``evenly_spread``.

    At most ``upper`` and ``max_parallelism``, and at least ``lower`` where N allows it. Raises
    ValueError if ``lower`` is more than ``upper``, a number is below 1 (``partitions``: 0), or mode
    or version is unknown.
    """
    word = mode.strip().lower().replace("-", "_").replace("maximize", "maximise")
    _check(current, target, partitions, max_parallelism, lower, upper)
    if version not in MODES or word not in MODES[version]:
        known = MODES.get(version)
        if known is None:
            raise ValueError(f"version: {version!r} is not one of {', '.join(MODES)}")
        raise ValueError(f"mode: {mode!r} is not one of {', '.join(known)} (version {version})")
    most = min(max_parallelism, upper)
    wanted = min(max(lower, target), most)
    if word == "off" or wanted == current:
        return wanted
    units = partitions or max_parallelism
    if version == "head":
        wanted = min(wanted, units)
    last = min(units, most)
    if wanted < current:
        last = min(last, current)
    is_old = version == "1.15" or word == "maximise_utilisation"
    is_exact = word == "evenly_spread" or (version == "1.15" and word == "balanced")
    for found in range(wanted, last + 1):
        if units % found == 0 or (not is_exact and units // found < units // wanted):
            return found
    return _downwards(current, wanted, units, lower) if is_old else wanted


def _downwards(current: int, wanted: int, units: int, lower: int) -> int:
    """Return the smallest parallelism that leaves a subtask no more; the current one at a turn."""
    share, found = units // wanted, wanted
    while found > 0 and units // found <= share:
        found -= 1
    if found > 0 and units % found:
        found += 1
    found = max(found, lower)
    turns = found <= current if wanted > current else found >= current
    return current if turns else found


def _check(current: int, target: int, partitions: int, most: int, lower: int, upper: int) -> None:
    named = {"current": current, "target": target, "max_parallelism": most}
    for name, value in (named | {"lower": lower, "upper": upper}).items():
        if value < 1:
            raise ValueError(f"{name}: {value} is out of range: needs a whole number, at least 1")
    if partitions < 0:
        raise ValueError(f"partitions: {partitions} is out of range: needs at least 0")
    if lower > upper:
        raise ValueError(f"lower: {lower} is more than upper, {upper}: lower it")
