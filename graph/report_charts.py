"""Select the GPU numbers behind a diagnosis that are worth an unrequested chart. Pure."""

from collections.abc import Iterator, Sequence

from graph.report import AttachedChart
from graph.state import Hypothesis
from kb.fact_keys import find_key
from tools.fact import Fact
from tools.heatmap import Heatmap

MAX_UNREQUESTED_CHARTS = 1  # Charts per report without a request
MIN_CHART_VALUES = 4  # values below which words say it as fast
MAX_CHART_HOSTS = 400


def iter_deciding_gpu_keys(causes: Sequence[Hypothesis]) -> Iterator[str]:
    """Yield GPU quantity keys that causes cite."""
    for name in dict.fromkeys(row.key for cause in causes for row in cause.evidence):
        if (key := find_key(name)) and key.is_quantity and key.scope == "gpu":
            yield key.name


def iter_deciding_heatmaps(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> Iterator[Heatmap]:
    """Yield one heatmap per deciding key."""
    for key in iter_deciding_gpu_keys(causes):
        heat = Heatmap(key, sorted({fact.host for fact in facts if fact.key == key and fact.host}))
        heat.add_facts(facts)
        yield heat


def count_known_values(heatmap: Heatmap) -> int:
    return sum(value is not None for host in heatmap.list_known_hosts() for value in heatmap.get_row(host))


def _is_accused_device(cause: Hypothesis, key: str, host: str, column: str) -> bool:
    if host not in cause.hosts or key not in {row.key for row in cause.evidence}:
        return False
    on_host = [device for device in cause.devices if device.startswith(f"{host}/")]
    return not on_host or not column or f"{host}/{column}" in on_host


def select_report_charts(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> tuple[AttachedChart, ...]:
    """Return charts in which an accused host is the outlier; any other chart would say nothing or mislead."""
    telling = (
        row
        for row in iter_deciding_heatmaps(causes, facts)
        if count_known_values(row) >= MIN_CHART_VALUES
        and (far := row.find_outlier())
        and any(_is_accused_device(cause, row.key, far[0], far[1]) for cause in causes)
    )
    charts = [AttachedChart(key=row.key, hosts=tuple(row.list_outlier_hosts(MAX_CHART_HOSTS)), asked=False) for row in telling]
    return tuple(charts[:MAX_UNREQUESTED_CHARTS])
