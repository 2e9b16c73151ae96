"""What the fleet is asked and what it answers: one check on one host, and all answers of one look with what they cost."""

import heapq
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tools.fact import Fact

DEFAULT_LANES = 5
"""Checks at once on one host where nobody says otherwise, for the makespan as for the real thing (`tools.ssh.client.SshLimits.sessions`)."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """One check on one host."""

    host: str
    check: str


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """What one check found on one host. `build_unobserved_answer` says in words why it could not look; empty when it did."""

    host: str
    check: str
    facts: tuple[Fact, ...]
    seconds: float = 0.0
    could_not: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class FleetAnswers:
    """All answers of one `look`, and what they cost. Cached answers cost nothing."""

    answers: tuple[CheckAnswer, ...] = ()
    check_seconds: float = 0.0
    makespan_seconds: float = 0.0
    exclusive_gpu_seconds: float = 0.0

    @property
    def facts(self) -> list[Fact]:
        """Every fact, blind ones included."""
        return [fact for answer in self.answers for fact in answer.facts]

    @property
    def checks(self) -> int:
        """Checks that really ran."""
        return sum(not answer.cached for answer in self.answers)


AnswerCallback = Callable[[CheckAnswer], Awaitable[None] | None]
"""Told of each answer as it comes; may be a coroutine function."""


def compute_makespan(seconds: Sequence[float], lanes: int = DEFAULT_LANES) -> float:
    """How long these take on `lanes` lanes, longest first."""
    busy = [0.0] * lanes
    for length in sorted(seconds, reverse=True):
        heapq.heapreplace(busy, busy[0] + length)
    return max(busy)
