"""Compare an observed with an expected time, and name the resource that explains a slow one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from kb.performance.time_model import ExpectedTime, Resource, TimePart
from kb.performance.workloads import format_duration

MIN_PEERS = 3  # measured peers needed before their median replaces the model
MIN_PEER_SPREAD = 0.1  # minimum relative spread of healthy peers
MIN_LIKELY_SPEED = 0.02  # share of its speed below which a resource is not slow but broken
Verdict = Literal["as expected", "slow", "fast"]


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """An observed time beside the expected one.

    `speeds` has, for each resource, the share of its speed that alone would explain the observed time.
    """

    expected: ExpectedTime
    observed_seconds: float
    verdict: Verdict
    speeds: tuple[tuple[Resource, float], ...] = ()
    suspect: Resource | None = None
    because: str = ""

    @property
    def ratio(self) -> float:
        return self.expected.seconds / self.observed_seconds

    def format_sentence(self) -> str:
        """Format as `23.1 s, where 12 s is expected (10.1 s to 14 s): slow, 0.52 of the expected speed; …`."""
        interval = f"{format_duration(self.expected.min_seconds)} to {format_duration(self.expected.max_seconds)}"
        observed, expected = format_duration(self.observed_seconds), format_duration(self.expected.seconds)
        comparison = f"{observed}, where {expected} is expected ({interval})"
        if self.verdict != "slow":
            return f"{comparison}: {self.verdict}"
        reason = f": {self.because}" if self.because else ""
        return f"{comparison}: slow, {self.ratio:.2g} of the expected speed; suspect {self.suspect}{reason}"


def compare_time(
    usual: ExpectedTime, observed_seconds: float, at_clock: ExpectedTime | None = None, mhz: float | None = None
) -> TimeComparison:
    """Compare the times, and name a suspect if the observed one is too long.

    `at_clock` is the expected time at the observed SM clock `mhz`.
    """
    if observed_seconds < usual.min_seconds:
        return TimeComparison(usual, observed_seconds, "fast")
    if observed_seconds <= usual.max_seconds:
        return TimeComparison(usual, observed_seconds, "as expected")
    speed_by_resource: dict[Resource, float] = {}
    for part in usual.parts:
        speed = _compute_explaining_speed(usual, part, observed_seconds)
        if speed is not None:
            speed_by_resource[part.resource] = speed
    speeds = tuple(speed_by_resource.items())
    if at_clock is not None and mhz is not None and at_clock.seconds > usual.seconds * (1 + MIN_PEER_SPREAD):
        explanation = _format_explanation(at_clock, observed_seconds)
        because = f"at an SM clock of {mhz:,.0f} MHz {format_duration(at_clock.seconds)} is expected, {explanation}"
        return TimeComparison(usual, observed_seconds, "slow", speeds, "compute", because)
    fastest_first = sorted(speed_by_resource, key=lambda resource: -speed_by_resource[resource])
    suspect = fastest_first[0] if fastest_first else usual.bound
    likely_resources = [resource for resource in fastest_first if speed_by_resource[resource] >= MIN_LIKELY_SPEED]
    because = "nothing alone explains it"
    if likely_resources:
        slowdowns = ", or ".join(f"{resource} at {speed_by_resource[resource]:.0%} of its speed" for resource in likely_resources)
        because = f"alone {slowdowns} would explain it"
    return TimeComparison(usual, observed_seconds, "slow", speeds, suspect, because)


def _format_explanation(at_clock: ExpectedTime, observed_seconds: float) -> str:
    if observed_seconds > at_clock.max_seconds:
        return "which does not explain all of it"
    return "which explains it" if observed_seconds >= at_clock.min_seconds else "which more than explains it"


def adjust_to_peers(model: ExpectedTime, times: Sequence[float]) -> ExpectedTime:
    """Replace the modelled time by the median of the peers' times, and its interval by their robust spread."""
    if len(times) < MIN_PEERS:
        return model
    median_seconds = median(times)
    median_deviation = median(abs(time - median_seconds) for time in times)
    width = max(MIN_PEER_SPREAD * median_seconds, 3 * 1.4826 * median_deviation)  # three standard deviations
    scale = median_seconds / model.seconds
    parts = tuple(
        replace(part, seconds=part.seconds * scale, min_seconds=part.min_seconds * scale, max_seconds=part.max_seconds * scale)
        for part in model.parts
    )
    return replace(
        model,
        seconds=median_seconds,
        min_seconds=max(median_seconds - width, median_seconds / 10),
        max_seconds=median_seconds + width,
        parts=parts,
        peers=len(times),
    )


def _compute_explaining_speed(usual: ExpectedTime, part: TimePart, observed_seconds: float) -> float | None:
    """Return the share of its speed at which this part alone explains the observed time; None if it cannot."""
    available_seconds = observed_seconds / usual.stretch
    if not part.is_parallel:
        available_seconds -= sum(other.seconds for other in usual.parts if not other.is_parallel and other is not part)
    if available_seconds <= 0 or part.seconds <= 0:
        return None
    return min(1.0, part.seconds / available_seconds)
