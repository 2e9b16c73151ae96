"""Compare observed with expected time, and find the resource that explains it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from kb.performance.time_model import ExpectedTime, Resource
from kb.performance.workloads import format_duration

MIN_PEERS = 3  # measured peers needed before their median replaces the model
MIN_PEER_SPREAD = 0.1  # minimum relative spread of healthy peers
MIN_LIKELY_SPEED = 0.02  # share of its speed below which a resource is not slow but broken
Verdict = Literal["as expected", "slow", "fast"]


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """A comparison. `speeds`: per resource, the share of its speed that alone would explain the time."""

    expected: ExpectedTime
    seen: float
    verdict: Verdict
    speeds: tuple[tuple[Resource, float], ...] = ()
    suspect: Resource | None = None
    because: str = ""

    @property
    def ratio(self) -> float:
        return self.expected.seconds / self.seen

    def format_sentence(self) -> str:
        """Format as `23.1 s, where 12 s is expected (10.1 s to 14 s): slow, 0.52 of the expected speed; …`."""
        want = self.expected
        comparison = f"{format_duration(self.seen)}, where {format_duration(want.seconds)} is expected ({format_duration(want.least)} to {format_duration(want.most)})"
        if self.verdict != "slow":
            return f"{comparison}: {self.verdict}"
        return f"{comparison}: slow, {self.ratio:.2g} of the expected speed; suspect {self.suspect}{f': {self.because}' if self.because else ''}"


def compare_time(usual: ExpectedTime, seen: float, at_clock: ExpectedTime | None = None, mhz: float | None = None) -> TimeComparison:
    """Name a suspect for a long time. `at_clock` is the expectation at the observed SM clock `mhz`."""
    if seen < usual.least:
        return TimeComparison(usual, seen, "fast")
    if seen <= usual.most:
        return TimeComparison(usual, seen, "as expected")
    speeds = tuple(
        (part.resource, speed) for part in usual.parts if (speed := _compute_explaining_speed(usual, part.resource, seen)) is not None
    )
    if at_clock is not None and mhz is not None and at_clock.seconds > usual.seconds * (1 + MIN_PEER_SPREAD):
        because = f"at an SM clock of {mhz:,.0f} MHz {format_duration(at_clock.seconds)} is expected, {_format_explanation(at_clock, seen)}"
        return TimeComparison(usual, seen, "slow", speeds, "compute", because)
    suspect = max(speeds, key=lambda row: row[1], default=(usual.bound, 0.0))[0]
    likely = sorted((row for row in speeds if row[1] >= MIN_LIKELY_SPEED), key=lambda row: -row[1])
    suspects = ", or ".join(f"{name} at {speed:.0%} of its speed" for name, speed in likely)
    return TimeComparison(
        usual, seen, "slow", speeds, suspect, f"alone {suspects} would explain it" if suspects else "nothing alone explains it"
    )


def _format_explanation(at_clock: ExpectedTime, seen: float) -> str:
    if seen > at_clock.most:
        return "which does not explain all of it"
    return "which explains it" if seen >= at_clock.least else "which more than explains it"


def adjust_to_peers(model: ExpectedTime, times: Sequence[float]) -> ExpectedTime:
    """Replace the time by the peers' median, the interval by their robust spread."""
    if len(times) < MIN_PEERS:
        return model
    middle = median(times)
    around = median(abs(time - middle) for time in times)
    width = max(MIN_PEER_SPREAD * middle, 3 * 1.4826 * around)
    scale = middle / model.seconds
    parts = tuple(replace(part, seconds=part.seconds * scale, least=part.least * scale, most=part.most * scale) for part in model.parts)
    return replace(model, seconds=middle, least=max(middle - width, middle / 10), most=middle + width, parts=parts, peers=len(times))


def _compute_explaining_speed(usual: ExpectedTime, resource: Resource, seen: float) -> float | None:
    """Share of speed at which this resource alone explains `seen`; None if it cannot."""
    part = next(one for one in usual.parts if one.resource == resource)
    other_seconds = sum(one.seconds for one in usual.parts if not one.beside and one is not part)
    room = seen / usual.stretch - (0.0 if part.beside else other_seconds)
    return min(1.0, part.seconds / room) if room > 0 and part.seconds > 0 else None
