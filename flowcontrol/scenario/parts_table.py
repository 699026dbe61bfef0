"""Every transport and throttle with its parameters, as ``parts.yaml`` has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from flowcontrol.scenario.yaml_file import read_table


@dataclass(frozen=True)
class Parameter:
    """One number of a transport or a throttle."""

    default: float  # Value unless a preset or the scenario states another
    unit: str = ""  # Of the value; empty for shares and factors
    # What it is, in general terms; a preset's ``words`` have the names in its system.
    meaning: str = ""
    least: float = 0.0  # least, most: bounds, both allowed
    most: float = float(1 << 53)

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers make sense."""
        return self.unit not in {"", "ms", "records/s"}


@dataclass(frozen=True)
class Part:
    """A transport or a throttle."""

    meaning: str  # What it does
    # By name, as a scenario writes it.
    parameters: dict[str, Parameter] = field(default_factory=dict)
    # Of a transport: its channels have queues of records, rather than buffers of bytes.
    counts_records: bool = False
    # Of a transport: a sender may count on what its receiver grants, so that what is held between
    # the two has a bound.
    has_grants: bool = True
    # Parameters of which the first must not be above the second.
    not_above: Sequence[tuple[str, str]] = ()
    section: str = ""  # Where the reference of other systems has its rules
    # What its system calls each of its messages. Of a transport: ``data`` of a sender, and
    # ``grant``, or ``stop`` and ``go``, of its receiver; one that has none sends none. Of a
    # throttle: by what its controller says (``Controller.spoken``).
    messages: Mapping[str, str] = field(default_factory=dict)
    # The same where its marks are in bytes: another system's names.
    messages_in_bytes: Mapping[str, str] = field(default_factory=dict)
    no_messages: str = ""  # Of a transport: why it has none
    has_log: bool = False  # Of a throttle: its sources read a log, in which due records wait
    needs_ages: bool = False  # Of a throttle: it looks at when the records under way were emitted

    def names(self, values: Mapping[str, float]) -> Mapping[str, str]:
        """Return the names of its messages, where it has such parameters."""
        return self.messages_in_bytes if values.get("high_bytes", 0) > 0 else self.messages


def _parts(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Part]:
    """Return a part for each row of a table."""
    found = {}
    for name, row in rows.items():
        parameters = {key: Parameter(**own) for key, own in row.get("parameters", {}).items()}
        found[name] = Part(**{**row, "parameters": parameters})
    return found


_TABLE: Final = read_table("parts.yaml")
TRANSPORT_PARTS: Final = _parts(_TABLE["transports"])
THROTTLE_PARTS: Final = _parts(_TABLE["throttles"])
