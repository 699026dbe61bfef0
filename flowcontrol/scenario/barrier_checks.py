"""Checks of checkpoints and failures against the system: which barriers it has."""

from collections.abc import Iterator
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.network_options import NetworkOptions
from flowcontrol.scenario.presets import ALIASES, PRESETS
from flowcontrol.scenario.problems import key_path
from flowcontrol.scenario.system import SystemSpec

_MODE: Final = "execution.checkpointing.mode"
_UNALIGNED: Final = "execution.checkpointing.unaligned.enabled"


def check_barriers(
    name: object,
    system: SystemSpec,
    options: NetworkOptions,
    *,
    has_savepoints: bool,
    has_failures: bool,
) -> Iterator[Problem]:
    """Refuse checkpoints, and failures, of a system that has no barriers for them.

    - ``name``: ``system`` in the file: the name of one, or its parts.
    - ``has_savepoints``, ``has_failures``: whether the file has some.
    """
    has_checkpoints = has_savepoints or options.checkpoint_interval_us is not None
    if not (has_checkpoints or has_failures):
        return
    preset = PRESETS.get(ALIASES.get(str(name), str(name))) if isinstance(name, str) else None
    mode = options.checkpoint_mode
    if preset is not None and not preset.barriers:
        what = "checkpoints" if has_checkpoints else "failures"
        text = f"{name!r} has no barriers, which {what} here need ({preset.checkpoints}): use "
        yield Problem("system", f"{text}{', '.join(_with_barriers(mode))}, or leave the {what} out")
    elif has_checkpoints:
        if preset is not None and mode not in preset.barriers:
            text = f"{mode!r}: {name!r} has only {preset.checkpoints}: use "
            text += f"{' or '.join(preset.barriers)}, or a system that has it: "
            yield Problem(key_path(["options", _MODE]), text + ", ".join(_with_barriers(mode)))
        yield from _of_records(system, options)


def _of_records(system: SystemSpec, options: NetworkOptions) -> Iterator[Problem]:
    """Refuse barriers that a transport of records cannot carry."""
    if not system.counts_records:
        return
    transport, is_exact = system.transport, options.checkpoint_mode == "exactly_once"
    if options.unaligned_enabled and is_exact:
        text = f"true: no barrier overtakes in the queues of {transport!r}: use false, or the "
        yield Problem(key_path(["options", _UNALIGNED]), text + "transport credit")
    if transport == "hop_hysteresis" and is_exact:
        text = f"{transport!r}: one switch stops all senders of a task, so records that wait "
        text += "behind a barrier would stop those whose barriers are missing, for ever: use "
        text += f"blocking_queue, or {_MODE} AT_LEAST_ONCE"
        yield Problem("system.transport", text)


def _with_barriers(mode: str) -> list[str]:
    return [name for name, preset in PRESETS.items() if mode in preset.barriers]
