"""The numbers of GPUs that decided a diagnosis, over all hosts that were read, and which of them are worth a picture that nobody asked for. Pure."""

from collections.abc import Iterator, Sequence

from graph.report import ShownPicture
from graph.state import Hypothesis
from kb.keys import find
from tools.fact import Fact
from tools.heat import Heat

MOST_SHOWN, LEAST_VALUES = 1, 4
"""Pictures that come with a report by themselves, and how many values are worth one: two numbers are told as fast in words."""
MOST_HOSTS = 400


def deciding_numbers(causes: Sequence[Hypothesis]) -> Iterator[str]:
    """Keys that causes cite, in their order, as far as they are numbers of a GPU."""
    for name in dict.fromkeys(row.key for cause in causes for row in cause.evidence):
        if (key := find(name)) and key.quantity and key.scope == "gpu":
            yield key.name


def deciding_heats(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> Iterator[Heat]:
    """Each with the hosts of which anything is known."""
    for key in deciding_numbers(causes):
        heat = Heat(key, sorted({fact.host for fact in facts if fact.key == key and fact.host}))
        heat.add(facts)
        yield heat


def values_in(heat: Heat) -> int:
    return sum(value is not None for host in heat.known() for value in heat.row(host))


def _accuses(cause: Hypothesis, key: str, host: str, column: str) -> bool:
    """Whether the value that stands out is of a device that a cause accuses by this key."""
    if host not in cause.hosts or key not in {row.key for row in cause.evidence}:
        return False
    on_host = [device for device in cause.devices if device.startswith(f"{host}/")]
    return not on_host or not column or f"{host}/{column}" in on_host


def telling_pictures(causes: Sequence[Hypothesis], facts: Sequence[Fact]) -> tuple[ShownPicture, ...]:
    """Of the numbers in which a host that is accused stands out: where none does, or another, a picture would say nothing or something else."""
    telling = (
        row
        for row in deciding_heats(causes, facts)
        if values_in(row) >= LEAST_VALUES and (far := row.farthest()) and any(_accuses(cause, row.key, far[0], far[1]) for cause in causes)
    )
    found = [ShownPicture(key=row.key, hosts=tuple(row.telling(MOST_HOSTS)), asked=False) for row in telling]
    return tuple(found[:MOST_SHOWN])
