"""What differs between hosts, of what was read of them; what rightly differs is left out. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from graph.incident.answers.known import Asked, ago, clean, meant, name_of, of_host, offer, read_at, say, unknown_said
from graph.incident.concluded import Concluded
from kb.keys import find
from tools.fact import Fact, Status
from tools.inventory.ranges import fold

THEIR_OWN = frozenset(
    {
        "host.boot_id",
        "host.booted_at",
        "host.uptime",
        "gpu.uuid",
        "gpu.serial",
        "ib.lid",
        "job.log",
        "time.clock",
        "proc.listed",
        "fabric.leaf",
    }
)
"""Keys that rightly differ from host to host."""
MOST_LINES, MOST_COMPARED, LONGEST_VALUE = 6, 64, 48

NOTHING = "nothing"
"""In the place of a value: it was looked for and is not there. What a lost device cannot say is no difference of its own."""

Slot = tuple[str, str, str]
"""Check, key, device."""


async def compare(asked: Asked) -> Concluded:
    """Hosts with each other; one with the rest; none named: those at fault with the rest."""
    hosts, others = _sides(asked)
    known = [of_host(asked, host) for host in (*hosts, *others)]
    dark = [row.host for row in known if row.dark]
    compared = [row.host for row in known if not row.dark][:MOST_COMPARED]
    if len(compared) < 2:
        lacking = f"{fold(dark)}: not looked at. Say `recheck {fold(dark)}`." if dark else "I have looked at fewer than two hosts."
        return say(asked, [*unknown_said(asked), f"There is nothing to compare yet. {lacking}"])
    said = {host: _values(asked, host) for host in compared}
    lines = _differences(asked, said)
    head = f"{_names(compared)}: " + (
        f"{len(lines)} thing{'s' * (len(lines) != 1)} differ{'s' * (len(lines) == 1)}."
        if lines
        else f"nothing differs in what was read with {max(len(row.looked) for row in known)} checks."
    )
    shown = lines[:MOST_LINES] if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], f"• … and {len(lines) - MOST_LINES + 1} more"]
    read = min((at for host in compared if (at := read_at(asked, host))), default=None)
    left = [f"{fold(dark)}: not looked at. Say `recheck {fold(dark)}`."] if dark else []
    blind = sorted({f"{name_of(check)} on {row.host}" for row in known for check, _ in row.blind if not row.dark})
    left += [f"Could not look: {', '.join(blind[:4])}."] if blind else []
    return say(asked, [*unknown_said(asked), head, *shown, *left, f"Read {ago(read, asked.at)}. {offer(asked, compared)}".strip()], most=11)


def _sides(asked: Asked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = meant(asked)
    seen = asked.seen
    if not named.named:
        first = asked.guilty or seen
        return first, tuple(host for host in seen if host not in first)
    if len(named.hosts) == 1:
        return named.hosts, tuple(host for host in seen if host not in named.hosts)
    return named.hosts, ()


def _names(hosts: Sequence[str]) -> str:
    return " and ".join(hosts) if len(hosts) == 2 else fold(hosts)


def _values(asked: Asked, host: str) -> dict[Slot, str]:
    """What a host says, setting by setting. Measurements, what jobs do and what names one machine are not compared, unless abnormal."""
    odd = {(fact.check, fact.key, fact.device or "") for fact in asked.now.odd if fact.host == host}
    found: dict[Slot, list[str]] = {}
    for fact in asked.case.facts:
        slot = (fact.check, fact.key, fact.device or "")
        if fact.host == host and fact.status is Status.OK and not fact.stale and (_comparable(fact) or slot in odd):
            found.setdefault(slot, []).append(_value(fact))
    return {slot: ", ".join(sorted(set(values))) for slot, values in found.items()}


def _comparable(fact: Fact) -> bool:
    row = find(fact.key)
    if not fact.key or fact.key in THEIR_OWN or row is None or row.text or row.name.endswith(".*"):
        return False
    return not (row.unit or fact.unit or row.kind == "float" or isinstance(fact.value, float) or "counter" in row.means)


def _value(fact: Fact) -> str:
    text = ", ".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return clean({"True": "yes", "False": "no"}.get(text, text), LONGEST_VALUE)


def _differences(asked: Asked, said: Mapping[str, Mapping[Slot, str]]) -> list[str]:
    """A line a setting, devices that differ alike folded; what is abnormal first."""
    hosts = list(said)
    looked = {host: set(of_host(asked, host).looked) for host in hosts}
    slots = dict.fromkeys(slot for values in said.values() for slot in values)
    abnormal = {fact.key for fact in asked.now.odd if fact.host in said}
    rows: dict[tuple[str, str, str], list[str]] = {}
    for slot in slots:
        check, key, device = slot
        able = [host for host in hosts if check in looked[host]]
        values = {host: said[host].get(slot, NOTHING) for host in able}
        differs = len(set(values.values())) > 1 and (NOTHING not in values.values() or key in abnormal)
        if differs:
            rows.setdefault((check, key, _sides_said(values)), []).append(device)
    cited = {line.key for row in asked.roots for line in row.evidence}
    order = sorted(rows.items(), key=lambda item: (item[0][1] not in cited, item[0][1] not in abnormal))
    return [f"• {_means(key)}{_devices(devices)} · {name_of(check)} · {sides}" for (check, key, sides), devices in order]


def _means(key: str) -> str:
    """A key in words."""
    row = find(key)
    return row.means.partition(";")[0].strip() if row and row.means else key


def _devices(devices: Sequence[str]) -> str:
    names = [device for device in devices if device]
    return f", {fold(names[:16])}" if names else ""


def _sides_said(values: Mapping[str, str]) -> str:
    """`gpu-001: yes; gpu-[002-004]: no`, the rarest first."""
    by_value: dict[str, list[str]] = {}
    for host, value in values.items():
        by_value.setdefault(value, []).append(host)
    rare = Counter({value: len(hosts) for value, hosts in by_value.items()})
    parts = [f"{fold(by_value[value])}: {value}" for value, _ in sorted(rare.items(), key=lambda row: (row[1], row[0]))]
    return "; ".join(parts[:3]) + (" …" if len(parts) > 3 else "")
