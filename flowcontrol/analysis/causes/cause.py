"""A cause: the word for it, the figures that show it, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Word = Literal[
    "none", "operator", "key_skew", "channel_skew", "stall", "cpu", "network", "buffers", "disk",
    "checkpoint", "external", "throttle", "source", "downstream",
]  # fmt: skip

WORDS: Final[tuple[Word, ...]] = get_args(Word)
"""The words for a cause, in the order of the documents."""


@dataclass(frozen=True)
class Cause:
    """Why a job is slow, or one of several reasons.

    Attributes
    ----------
    stage : str or None
        The stage where it is; of an exchange the receiving one. None for the whole job.
    subtask : int or None
        The subtask, if it is one of several.
    cause : str
        One of ``flowcontrol.analysis.causes.WORDS``.
    evidence : tuple of str
        Sentences with the figures that show it, and the rows of the tables that they are from.
    confidence : float
        From 0 to 1: how sure it is.
    reason : str
        Why it is no surer, or why so sure.
    advice : str
        What helps, in a few words.
    limited_s : float, s
        Emulated time for which it limited; 0 if nothing did.
    beside : tuple of str
        Other stages that stood still with it, as all of a task manager do.
    """

    stage: str | None
    subtask: int | None
    cause: Word
    evidence: tuple[str, ...]
    confidence: float
    reason: str = ""
    advice: str = ""
    limited_s: float = 0.0
    beside: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as it stands in summary.json."""
        return {
            "stage": self.stage,
            "subtask": self.subtask,
            "cause": self.cause,
            "evidence": list(self.evidence),
            "confidence": self.confidence,
            "reason": self.reason,
            "advice": self.advice,
            "limited_s": self.limited_s,
            **({"beside": list(self.beside)} if self.beside else {}),
        }
