"""The fleet's requests and answers, with their cost."""

import heapq
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tools.fact import Fact

# concurrent checks per host, both for execution and for the makespan (`tools.ssh.client.SshLimits.sessions`)
DEFAULT_LANES = 5


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """One check on one host."""

    host: str
    check: str


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """One check's facts on one host. `could_not`: why it was unobserved, or ""."""

    host: str
    check: str
    facts: tuple[Fact, ...]
    seconds: float = 0.0
    could_not: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class FleetAnswers:
    """All answers of one `run_checks` and their cost. Cached answers cost nothing."""

    answers: tuple[CheckAnswer, ...] = ()
    check_seconds: float = 0.0
    makespan_seconds: float = 0.0
    exclusive_gpu_seconds: float = 0.0

    @property
    def facts(self) -> list[Fact]:
        return [fact for answer in self.answers for fact in answer.facts]

    @property
    def checks(self) -> int:
        """Checks that ran, without cached ones."""
        return sum(not answer.cached for answer in self.answers)


# called with each answer as it arrives; may be a coroutine function
AnswerCallback = Callable[[CheckAnswer], Awaitable[None] | None]


def compute_makespan(seconds: Sequence[float], lanes: int = DEFAULT_LANES) -> float:
    """Return the time for these durations on `lanes` lanes, longest first."""
    busy = [0.0] * lanes
    for length in sorted(seconds, reverse=True):
        heapq.heapreplace(busy, busy[0] + length)
    return max(busy)
