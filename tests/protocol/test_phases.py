"""The phase of a schedule that is in force at a moment."""

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.service import phase_at


class Counted(list[list[int]]):
    """Phases that count how often one is looked at."""

    looks = 0

    def __getitem__(self, at: int) -> list[int]:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(at)


@given(st.sets(st.integers(1, 1000), max_size=20), st.integers(0, 1001))
def test_it_is_the_last_that_has_begun(starts: set[int], us: int) -> None:
    ordered = [0, *sorted(starts)]
    index = phase_at([[start, 0, 0] for start in ordered], us)
    assert ordered[index] <= us
    assert all(start > us for start in ordered[index + 1 :])


def test_of_many_phases_few_are_looked_at_and_of_one_none() -> None:
    """Two to the power of 14 are more than 12,000."""
    phases = Counted([10 * number, 0, 0] for number in range(12_000))
    assert phase_at(phases, 45) == 4
    assert phases.looks <= 14
    one = Counted([[0, 0, 0]])
    assert phase_at(one, 45) == 0
    assert one.looks == 0
