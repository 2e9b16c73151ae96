"""What differs between hosts, of what was read of them; what rightly differs is left out. Pure."""

from collections.abc import Mapping, Sequence

from graph.incident.answers.known import Asked, ago, clean, meant, name_of, of_host, offer, read_at, say, unknown_said
from graph.incident.concluded import Concluded
from kb.keys import find
from tools.differences import ValuesByHost, is_comparable
from tools.fact import Fact, Status
from tools.inventory.ranges import fold

MOST_LINES, MOST_COMPARED, LONGEST_VALUE = 6, 64, 48

NOTHING = "nothing"
"""In the place of a value: it was looked for and is not there. What a lost device cannot say is no difference of its own."""


async def compare(asked: Asked) -> Concluded:
    """Hosts with each other; one with the rest; none named: those at fault with the rest."""
    hosts, others = _sides(asked)
    known = [of_host(asked, host) for host in (*hosts, *others)]
    dark = [row.host for row in known if row.dark]
    compared = [row.host for row in known if not row.dark][:MOST_COMPARED]
    if len(compared) < 2:
        lacking = f"{fold(dark)}: not looked at. Say `recheck {fold(dark)}`." if dark else "I have looked at fewer than two hosts."
        return say(asked, [*unknown_said(asked), f"There is nothing to compare yet. {lacking}"])
    lines = _differences(asked, compared)
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


def _values(asked: Asked, hosts: Sequence[str]) -> ValuesByHost:
    """What hosts say, check by check. What cannot be compared is left out unless it is abnormal; so are counters and keys that a site made up."""
    odd = {(fact.host, fact.check, fact.key, fact.device or "") for fact in asked.now.odd}
    found: dict[str, dict[str, dict[tuple[str, str], set[str]]]] = {host: {} for host in hosts}
    for fact in asked.case.facts:
        slot = (fact.key, fact.device or "")
        if fact.host not in found or fact.status is not Status.OK or fact.stale:
            continue
        if (fact.host, fact.check, *slot) in odd or _is_setting(fact):
            found[fact.host].setdefault(fact.check, {}).setdefault(slot, set()).add(_value(fact))
    table = ValuesByHost()
    for host, by_check in found.items():
        looked = of_host(asked, host).looked
        for check in dict.fromkeys((*by_check, *looked)):  # in the order in which they were read
            if check in looked:
                table.add(check, host, by_check.get(check, {}))
    return table


def _is_setting(fact: Fact) -> bool:
    row = find(fact.key)
    return is_comparable(fact) and row is not None and not row.name.endswith(".*") and "counter" not in row.means


def _value(fact: Fact) -> str:
    text = ", ".join(map(str, fact.value)) if isinstance(fact.value, list) else str(fact.value)
    return clean({"True": "yes", "False": "no"}.get(text, text), LONGEST_VALUE)


def _differences(asked: Asked, hosts: Sequence[str]) -> list[str]:
    """A line a setting, devices that differ alike folded; what is abnormal first."""
    abnormal = {fact.key for fact in asked.now.odd if fact.host in hosts}
    rows: dict[tuple[str, str, str], list[str]] = {}
    table = _values(asked, hosts)
    for (check, key, device), values in table.settings():
        if len(values) > 1 and (all(values) or key in abnormal):
            sides = {", ".join(sorted(said)) or NOTHING: table.hosts(mask) for said, mask in values.items()}
            rows.setdefault((check, key, _sides_said(sides)), []).append(device)
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


def _sides_said(hosts_of: Mapping[str, Sequence[str]]) -> str:
    """`gpu-001: yes; gpu-[002-004]: no`, the rarest first."""
    parts = [f"{fold(hosts)}: {value}" for value, hosts in sorted(hosts_of.items(), key=lambda row: (len(row[1]), row[0]))]
    return "; ".join(parts[:3]) + (" …" if len(parts) > 3 else "")
