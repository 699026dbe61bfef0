"""What a commit of a transactional sink costs: its keys in the file."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated

from flowcontrol.scenario import fields as f
from flowcontrol.scenario.refusals import faults

CommitMilliseconds = Annotated[Fraction, f.Number("a time in ms", 0, 10**7, step=Fraction(1, 1000))]
Files = Annotated[int, f.Number("a whole number of files", 0, 100_000, step=f.ONE)]


class Commit(f.Mapping):
    """What it takes to commit a checkpoint of a sink (``Committer``)."""

    quiet = frozenset({"fixed_ms", "per_file_ms", "files", "shared"})

    fixed_ms: CommitMilliseconds = f.key("Commit.fixed_ms", Fraction(0))
    per_file_ms: CommitMilliseconds = f.key("Commit.per_file_ms", Fraction(0))
    files: Files = f.key("Commit.files", 1)
    shared: bool = f.key("Commit.shared", False, strict=True)

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between keys: a key and the refusal."""
        yield from faults("commits", self)

    @property
    def takes_nothing(self) -> bool:
        """Whether a commit takes no time at all."""
        return self.fixed_ms == 0 and (self.per_file_ms == 0 or self.files == 0)

    def length_us(self, files: int) -> int:
        """Return what a commit of so many files takes, microseconds."""
        return int((self.fixed_ms + files * self.per_file_ms) * 1000)
