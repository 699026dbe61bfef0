"""Whole systems by name: a transport and a throttle with the defaults of one version.

``presets.yaml`` has them; a preset states what differs from the defaults of its parts
(:mod:`~flowcontrol.scenario.parts_table`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from flowcontrol.scenario.yaml_file import read_table


@dataclass(frozen=True)
class Preset:
    """A system."""

    version: str  # Whose defaults these are
    transport: str  # transport, throttle: names of parts
    meaning: str  # One sentence
    checkpoints: str  # How it takes checkpoints, or what it does instead
    throttle: str = "none"
    # Modes of ``execution.checkpointing.mode`` that it has barriers for; none: it cannot run a
    # scenario with checkpoints.
    barriers: Sequence[str] = ()
    source: str = ""  # Where the rules and the defaults are from
    # Parameters that differ from the parts' defaults.
    transport_values: dict[str, float] = field(default_factory=dict)
    throttle_values: dict[str, float] = field(default_factory=dict)
    # Flink's own options that are fixed there.
    options: dict[str, str] = field(default_factory=dict)
    # By parameter, its name in the system's own configuration, or that it has none: a part serves
    # several systems and describes its parameters in plain terms.
    words: dict[str, str] = field(default_factory=dict)


PRESETS: Final = {name: Preset(**row) for name, row in read_table("presets.yaml").items()}

ALIASES: Final[dict[str, str]] = {"storm": "storm-1", "jstorm": "jstorm-2.1"}
"""Shorter names."""
