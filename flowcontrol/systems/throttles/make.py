"""The controller of a throttle: ``CONTROLLER`` of the module of its name."""

from collections.abc import Mapping, Sequence
from importlib import import_module

from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.systems.throttles.controller import Controller, ControllerSettings


def check_values(throttle: str, values: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return what is wrong with the parameters of a throttle: parameter and message, each.

    - ``throttle``: a key of ``THROTTLE_PARTS``.
    - ``values``: parameters that are stated; the others have their defaults.

    Raises ValueError if there is no such throttle.
    """
    if throttle not in THROTTLE_PARTS:
        names = ", ".join(THROTTLE_PARTS)
        raise ValueError(f"{throttle!r} is not the name of a throttle: write one of {names}")
    table = THROTTLE_PARTS[throttle].parameters
    wrong = []
    for key, value in values.items():
        if key not in table:
            names = ", ".join(table) or "none"
            wrong.append((key, f"{throttle} has no such parameter; it has {names}"))
        elif not table[key].least <= value <= table[key].most:
            least, most = table[key].least, table[key].most
            wrong.append((key, f"{value:g} is not within {least:g} and {most:g}"))
    full = _full(throttle, values)
    for low, high in THROTTLE_PARTS[throttle].not_above:
        if full[low] > full[high]:
            text = f"{full[low]:g} is above {high}, which is {full[high]:g}: lower the one or raise"
            wrong.append((low, f"{text} the other"))
    return wrong


def make_controller(
    throttle: str,
    values: Mapping[str, float],
    *,
    round_us: int,
    spouts_above: Mapping[str, Sequence[str]],
) -> Controller | None:
    """Return the controller of a throttle, at rest.

    - ``throttle``: a key of ``THROTTLE_PARTS``.
    - ``values``: parameters that are stated; the others have their defaults.
    - ``round_us``: length of a round, microseconds.
    - ``spouts_above``: by stage that is not a source, the source stages from which it can be
      reached.

    Returns None for ``none``: sources emit as they can. Raises ValueError if there is no such
    throttle, if a parameter is wrong, or if the round is not positive.
    """
    wrong = [f"{throttle}.{key}: {message}" for key, message in check_values(throttle, values)]
    if wrong:
        raise ValueError("; ".join(wrong))
    if round_us <= 0:
        raise ValueError(f"round_us is {round_us}: a round must be longer than nothing")
    if throttle == "none":
        return None
    settings = ControllerSettings(_full(throttle, values), round_us, spouts_above)
    module = import_module(f"{__package__}.{throttle}")
    made: Controller = module.CONTROLLER(settings)
    return made


def _full(throttle: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return every parameter's value: what is stated, else the default."""
    table = THROTTLE_PARTS[throttle].parameters
    return {key: float(values.get(key, part.default)) for key, part in table.items()}
