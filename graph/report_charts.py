"""The numbers of GPUs that decided a diagnosis, over all hosts that were read, and which of them are worth a picture that nobody asked for. Pure."""

from collections.abc import Iterator, Sequence

from graph.report import AttachedChart
from graph.state import Hypothesis
from kb.fact_keys import find_key
from tools.fact import Fact
from tools.heatmap import Heatmap

MAX_UNREQUESTED_CHARTS, MIN_CHART_VALUES = 1, 4
"""Pictures that come with a report by themselves, and how many values are worth one: two numbers are told as fast in words."""
MAX_CHART_HOSTS = 400


def iter_deciding_gpu_keys(causes: Sequence[Hypothesis]) -> Iterator[str]:
    """Keys that causes cite, in their order, as far as they are numbers of a GPU."""
    for name in dict.fromkeys(row.key for cause in causes for row in cause.evidence):
        if (key := find_key(name)) and key.is_quantity and key.scope == "gpu":
            yield key.name


def iter_deciding_heatmaps(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> Iterator[Heatmap]:
    """Each with the hosts of which anything is known."""
    for key in iter_deciding_gpu_keys(causes):
        heat = Heatmap(key, sorted({fact.host for fact in facts if fact.key == key and fact.host}))
        heat.add_facts(facts)
        yield heat


def count_known_values(heat: Heatmap) -> int:
    return sum(value is not None for host in heat.list_known_hosts() for value in heat.get_row(host))


def _is_accused_device(cause: Hypothesis, key: str, host: str, column: str) -> bool:
    """Whether the value that stands out is of a device that a cause accuses by this key."""
    if host not in cause.hosts or key not in {row.key for row in cause.evidence}:
        return False
    on_host = [device for device in cause.devices if device.startswith(f"{host}/")]
    return not on_host or not column or f"{host}/{column}" in on_host


def select_report_charts(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> tuple[AttachedChart, ...]:
    """Of the numbers in which a host that is accused stands out: where none does, or another, a picture would say nothing or something else."""
    telling = (
        row
        for row in iter_deciding_heatmaps(causes, facts)
        if count_known_values(row) >= MIN_CHART_VALUES
        and (far := row.find_outlier())
        and any(_is_accused_device(cause, row.key, far[0], far[1]) for cause in causes)
    )
    found = [AttachedChart(key=row.key, hosts=tuple(row.list_outlier_hosts(MAX_CHART_HOSTS)), asked=False) for row in telling]
    return tuple(found[:MAX_UNREQUESTED_CHARTS])
