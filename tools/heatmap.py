"""One number per GPU (hosts × GPUs) or per pair of hosts. Missing values are unknown, never zero."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, TypeGuard

from kb.fact_keys import find_key
from tools.fact import Fact, Status, Value

MAX_ROWS = 40  # hosts shown; those that deviate most are kept

# Keys that are worse in one direction only. All others deviate in both directions.
WORSE_DIRECTIONS: Mapping[str, Literal["more", "less"]] = {
    "gpu.temp.core": "more",
    "gpu.temp.memory": "more",
    "gpu.ecc.dram_uncorrectable_total": "more",
    "gpu.ecc.dram_correctable_total": "more",
    "nvlink.crc_errors": "more",
    "nvlink.speed": "less",
    "pcie.width": "less",
    "pcie.speed": "less",
    "gpu.clock.sm": "less",
    "nccl.pair_busbw": "less",
}
# A value stands out if its deviation from the median exceeds an eighth of the median, 0.5, and four times the median
# deviation.
MIN_DEVIATION_DIVISOR = 8
MIN_DEVIATION = 0.5
MIN_DEVIATION_WIDTHS = 4

MAX_VALUE = 10**18  # larger numbers are not a GPU's measurement


@dataclass(slots=True)
class Heatmap:
    """Values of one key. Columns are GPUs in numeric order, or the other host of a pair."""

    key: str
    hosts: Sequence[str]
    _values: dict[tuple[str, str], float] = field(default_factory=dict)

    def add_facts(self, facts: Iterable[Fact]) -> None:
        """Add facts of this key; the largest value of a place counts."""
        for fact in facts:
            if fact.key == self.key and fact.status is Status.OK and not fact.stale and _can_be_drawn(fact.value):
                for column in self._list_columns(fact):
                    place = (fact.host, column)
                    self._values[place] = max(float(fact.value), self._values.get(place, float("-inf")))

    def _list_columns(self, fact: Fact) -> Sequence[str]:
        partners = fact.attrs.get("with")
        if isinstance(partners, (list, tuple)):
            return [str(partner) for partner in partners if partner in self.hosts]
        return [fact.device or ""]

    @property
    def columns(self) -> list[str]:
        hosts = set(self.hosts)
        return sorted({column for host, column in self._values if host in hosts}, key=lambda name: (len(name), name))

    @property
    def unit(self) -> str:
        fact_key = find_key(self.key)
        return fact_key.unit if fact_key else ""

    @property
    def says(self) -> str:
        fact_key = find_key(self.key)
        return fact_key.means.partition(";")[0] if fact_key else self.key

    def get_row(self, host: str, columns: Sequence[str] | None = None) -> list[float | None]:
        """Return one host's values; None where unknown."""
        return [self._values.get((host, column)) for column in (self.columns if columns is None else columns)]

    def list_known_hosts(self) -> list[str]:
        hosts_with_values = {host for host, _ in self._values}
        return [host for host in self.hosts if host in hosts_with_values]

    def build_table(self) -> list[tuple[str, ...]]:
        """Return text cells, header first, with hosts without values."""
        columns = self.columns
        table: list[tuple[str, ...]] = [("host", *columns)]
        for host in self.hosts:
            cells = ["?" if value is None else f"{value:g}" for value in self.get_row(host, columns)]
            table.append((host, *cells))
        return table

    def compute_spread(self) -> tuple[float, float, float] | None:
        """Return (least, median, largest); None without values."""
        hosts = set(self.hosts)
        values = [value for (host, _), value in self._values.items() if host in hosts]
        return (min(values), median(values), max(values)) if values else None

    def find_outlier(self) -> tuple[str, str, float] | None:
        """Return host, column and value that deviate most in the worse direction, if any stands out."""
        if (spread := self.compute_spread()) is None:
            return None
        hosts, middle = set(self.hosts), spread[1]
        ranked_values = sorted((place, value) for place, value in self._values.items() if place[0] in hosts)
        (host, column), value = max(ranked_values, key=lambda ranked: self._compute_deviation(ranked[1], middle))
        usual = median(abs(other - middle) for _, other in ranked_values)
        threshold = max(abs(middle) / MIN_DEVIATION_DIVISOR, MIN_DEVIATION, MIN_DEVIATION_WIDTHS * usual)
        return (host, column, value) if self._compute_deviation(value, middle) > threshold else None

    def _compute_deviation(self, value: float, middle: float) -> float:
        """Return the deviation from the median, positive in the worse direction."""
        sides = {"more": value - middle, "less": middle - value}
        return sides[WORSE_DIRECTIONS[self.key]] if self.key in WORSE_DIRECTIONS else abs(value - middle)

    def list_outlier_hosts(self, max_hosts: int = MAX_ROWS) -> list[str]:
        """Return the hosts that deviate most, in their own order."""
        spread = self.compute_spread()
        if spread is None:
            return []
        known_hosts = self.list_known_hosts()
        deviation_by_host = dict.fromkeys(known_hosts, 0.0)
        for (host, _), value in self._values.items():
            if host in deviation_by_host:
                deviation_by_host[host] = max(deviation_by_host[host], abs(value - spread[1]))
        selected = sorted(known_hosts, key=lambda host: -deviation_by_host[host])[:max_hosts]
        return [host for host in known_hosts if host in set(selected)]


def _can_be_drawn(value: Value) -> TypeGuard[int | float]:
    """Return whether the value fits a scale, which NaN and absurd numbers do not."""
    return isinstance(value, (int, float)) and abs(value) <= MAX_VALUE


def summarize_heatmap(heatmap: Heatmap) -> str:
    """Return one line as text alternative to the image; empty without values."""
    spread, outlier = heatmap.compute_spread(), heatmap.find_outlier()
    if spread is None:
        return ""
    unit = f" {heatmap.unit}" if heatmap.unit else ""
    low, middle, high = spread
    hosts = len(heatmap.list_known_hosts())
    outlier_text = f"{'/'.join(part for part in outlier[:2] if part)} with {outlier[2]:g} stands out most" if outlier else "none stands out"
    return f"{heatmap.says} of {hosts} host{'s' if hosts != 1 else ''}: {low:g} to {high:g}{unit}, median {middle:g}; {outlier_text}"
