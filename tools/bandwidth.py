"""All-reduce bandwidth per host and message size, compared with what the GPU model reaches.

A bandwidth that was not measured is unknown, never zero.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tools.fact import Fact, Status, Value

BANDWIDTH_KEYS = frozenset({"nccl.busbw_at", "nccl.busbw_max"})
MIN_BANDWIDTH_RATIO = 0.8  # of what the model reaches; below it a host is slow
MIN_JUDGED_BYTES = 1 << 30  # smaller messages are slow on every machine and are not judged
PASTED_TABLE = "handed in"  # host name used for a table that a user pasted
MAX_NAMED_HOSTS = 4
MAX_GB_PER_SECOND = 10**6  # larger numbers are not a bandwidth
MAX_MESSAGE_BYTES = 1 << 50


@dataclass(frozen=True, slots=True)
class BandwidthCurve:
    """(message bytes, GB/s) points by size. `expected`: what the model reaches with large messages, None if unknown."""

    host: str
    points: tuple[tuple[int, float], ...]
    expected: float | None = None

    @property
    def best(self) -> float:
        return max((speed for _, speed in self.points), default=0.0)

    @property
    def is_slow(self) -> bool:
        """Whether large messages stay below the model's band; False without a band."""
        judged_speeds = [speed for size, speed in self.points if size >= MIN_JUDGED_BYTES]
        return bool(judged_speeds) and self.expected is not None and max(judged_speeds) < MIN_BANDWIDTH_RATIO * self.expected


@dataclass(frozen=True, slots=True)
class Bandwidths:
    """Curves in the hosts' order. `blind` hosts were requested and not measured."""

    curves: tuple[BandwidthCurve, ...]
    blind: tuple[str, ...] = ()

    @property
    def bands(self) -> tuple[float, ...]:
        return tuple(sorted({curve.expected for curve in self.curves if curve.expected}))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({size for curve in self.curves for size, _ in curve.points}))

    def select_slowest(self, count: int) -> tuple[BandwidthCurve, ...]:
        """Return at most `count` curves in their own order: hosts too slow for their model, then the slowest."""
        slowest = sorted(self.curves, key=lambda curve: (not curve.is_slow, curve.best))[:count]
        return tuple(curve for curve in self.curves if curve in slowest)

    def build_table(self) -> list[tuple[str, ...]]:
        head = ("host", *(format_size(size) for size in self.sizes), "model reaches")
        rows = [(curve.host, *_format_cells(curve, self.sizes), f"{curve.expected:g}" if curve.expected else "?") for curve in self.curves]
        unobserved_rows = [(host, *("?" for _ in self.sizes), "?") for host in self.blind]
        return [head, *rows, *unobserved_rows]


def collect_bandwidths(hosts: Sequence[str], facts: Iterable[Fact], expected: Callable[[str], Value]) -> Bandwidths:
    """Return the bandwidths of these hosts and of pasted tables. `expected` returns what a host's model reaches."""
    speeds_by_host: dict[str, dict[int, float]] = {}
    asked_hosts = set(hosts)
    for fact in facts:
        size = fact.attrs.get("size")
        if _is_bandwidth_fact(fact) and (not fact.host or fact.host in asked_hosts) and type(size) is int and 0 < size <= MAX_MESSAGE_BYTES:
            points = speeds_by_host.setdefault(fact.host or PASTED_TABLE, {})
            points[size] = max(float(fact.value), points.get(size, 0.0))  # type: ignore[arg-type]  # _is_bandwidth_fact checked it
    order = [*(host for host in hosts if host in speeds_by_host), *([PASTED_TABLE] if PASTED_TABLE in speeds_by_host else [])]
    curves = tuple(BandwidthCurve(host, tuple(sorted(speeds_by_host[host].items())), _parse_speed(expected(host))) for host in order)
    return Bandwidths(curves, tuple(host for host in hosts if host not in speeds_by_host))


def _is_bandwidth_fact(fact: Fact) -> bool:
    return fact.key in BANDWIDTH_KEYS and fact.status is Status.OK and not fact.stale and _parse_speed(fact.value) is not None


def _parse_speed(value: Value) -> float | None:
    is_valid = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_GB_PER_SECOND
    return float(value) if is_valid else None  # type: ignore[arg-type]  # a number, as the line above says


def _format_cells(curve: BandwidthCurve, sizes: Sequence[int]) -> list[str]:
    speed_by_size = dict(curve.points)
    return [f"{speed_by_size[size]:g}" if size in speed_by_size else "?" for size in sizes]


def format_size(size: int) -> str:
    for unit, step in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.4g} {unit}"
    return f"{size} B"


def summarize_bandwidths(bandwidths: Bandwidths) -> str:
    """Return one line as text alternative to the chart; empty without measurements."""
    if not bandwidths.curves:
        return ""
    best = [curve.best for curve in bandwidths.curves]
    slow = [curve.host for curve in bandwidths.curves if curve.is_slow]
    host_count = f"{len(best)} host{'s' if len(best) != 1 else ''}"
    bands = " and ".join(f"{band:g}" for band in bandwidths.bands)
    model = f"the model reaches {bands}" if bands else "what the model reaches is not written down"
    verdict = "none below its band" if bands else ""
    if slow:
        more = f" and {len(slow) - MAX_NAMED_HOSTS} more" if len(slow) > MAX_NAMED_HOSTS else ""
        verdict = f"{', '.join(slow[:MAX_NAMED_HOSTS])}{more} below {MIN_BANDWIDTH_RATIO:.0%} of it"
    unobserved_note = f"not measured on {len(bandwidths.blind)}" if bandwidths.blind else ""
    speeds = f"{min(best):g} to {max(best):g} GB/s, median {median(best):g}" if len(best) > 1 else f"{best[0]:g} GB/s"
    return "; ".join(filter(None, (f"all-reduce bus bandwidth of {host_count} at best: {speeds}", model, verdict, unobserved_note)))
