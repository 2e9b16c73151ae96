"""Answer what a machine is: model, serial numbers, slot, rack, switch, driver, scheduler state, owner."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from graph.dialogue.spelling import normalize_words
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    render_basis,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.turn_result import TurnResult
from tools.fact import Fact, Status
from tools.inventory.inventory import Host

MAX_HOSTS = 3
MAX_SEARCHED_CHARS = 400  # searched at the start of a message
# What a question asks of a machine, by words of five languages as `normalize_words` gives them. The order is that of the answer.
# fmt: off
_ASPECT_WORDS: Final[Mapping[str, str]] = {
    "model":  "models?|modell|modele|modelo|sku|products?|hardware|cards|gpus|kind of machine|inventory|asset|型 号",
    "serial": "serials?|part numbers?|uuids?|seriennummer|numero de serie|序 列 号|identity|asset",
    "slot":   "slots?|pci|bdf|bus id|module|插 槽|ranura",
    "rack":   "racks?|rows?|where|hall|physically|wo|ou|donde|机 柜|哪 里|inventory|asset",
    "switch": "switch|switches|leaf|ports?|puerto|交 换 机",
    "guid":   "guids?|lids?",
    "driver": "drivers?|treiber\\w*|pilote|controlador|驱 动|cuda|vbios|firmware|kernel|versions?",
    "state":  "partitions?|particion|slurm|sinfo|scheduler|states?|drained|drain|zustand|etat|estado|分 区|状 态",
    "owner":  "owns?|owner|whose|customers?|tenants?|belongs?|groups?|cluster|gehort|wem|kunde|appartient|a qui|client|de quien|cliente|谁|客 户|属 于|inventory",
    "address": "ip|address|adresse|direccion|地 址",
}
# fmt: on
_ASPECTS = {name: re.compile(rf"(?:^|(?<= ))(?:{words})(?= |$)") for name, words in _ASPECT_WORDS.items()}
_OVERVIEW = ("model", "serial", "rack", "switch", "driver", "state")
_PORT = re.compile(r"(?:^|(?<= ))(?:ports?|puerto|端 口)(?= |$)")


def find_aspects(text: str) -> tuple[str, ...]:
    """Return what the text asks of a machine, in the order of an answer."""
    words = _normalize(text)
    aspects = tuple(name for name, pattern in _ASPECTS.items() if pattern.search(words))
    # "PCI address" asks for no network address, "the port's guid" for no switch.
    aside = {other for asked, other in (("slot", "address"), ("guid", "switch")) if asked in aspects}
    return tuple(name for name in aspects if name not in aside)


def _normalize(text: str) -> str:
    return " ".join(word.strip("?？.,!") for word in normalize_words(text[:MAX_SEARCHED_CHARS]))


async def answer_host_identity(context: AnswerContext) -> TurnResult:
    """Answer with what is asked of each host, each value with its source; or with an overview."""
    aspects = find_aspects(context.message.text) or _OVERVIEW
    hosts = [context.graph_context.inventory.hosts[host] for host in resolve_target_hosts(context).hosts]
    if not hosts:
        text = "I cannot tell: I know no host of this incident yet. Name one, for example “serial number of gpu-002?”."
        return build_answer(context, [*render_unknown_names(context), text])
    lines = [_RENDERERS[aspect](context, host) for host in hosts[:MAX_HOSTS] for aspect in aspects]
    more = f"… and {len(hosts) - MAX_HOSTS} more hosts; name the one that you mean." if len(hosts) > MAX_HOSTS else ""
    return build_answer(context, [*render_unknown_names(context), *lines, more])


def _list_facts(context: AnswerContext, host: str, *keys: str) -> list[Fact]:
    """Return what was read last under each key, of the device named only if there is one."""
    device = context.message.device
    facts: dict[tuple[str, str], Fact] = {}
    for fact in context.incident.facts:
        is_wanted = fact.host == host and fact.key in keys and fact.status is Status.OK and not fact.stale
        if is_wanted and (not device or not fact.device or fact.device == device):
            facts[fact.key, fact.device or ""] = fact
    return sorted(facts.values(), key=lambda fact: (keys.index(fact.key), fact.device or ""))


def _render_read(context: AnswerContext, host: Host, says: str, facts: Sequence[Fact]) -> str:
    """Return `gpu-002: 8 × H100 (nvidia-smi on gpu-002, read 4 min ago).`"""
    age = format_age(min((fact.time for fact in facts if fact.time), default=None), context.current_time)
    return f"{host.name}: {clean_text(says, 400)} ({render_basis(facts)}, read {age})."


def _render_unread(host: Host, what: str, how: str) -> str:
    return f"I do not know {what} of {host.name}; this would tell it: {how}."


def _join_values(facts: Sequence[Fact]) -> str:
    """Return `570.148 on all`, or the values by device: `gpu0 1656…, gpu1 1655…`."""
    values = {str(fact.value) for fact in facts}
    if len(values) == 1:
        devices = [fact.device for fact in facts if fact.device]
        return f"{values.pop()}{f' ({devices[0]})' if len(devices) == 1 else ''}"
    return ", ".join(f"{fact.device} {fact.value}" for fact in facts)


def _list_unread_devices(context: AnswerContext, host: Host, facts: Sequence[Fact]) -> list[str]:
    """Return the GPUs that the driver lists, or that are at fault, without such a fact."""
    listed = {fact.device for fact in _list_facts(context, host.name, "gpu.bdf") if fact.device}
    faulty = {
        device.partition("/")[2] for cause in context.root_causes for device in cause.devices if device.startswith(f"{host.name}/gpu")
    }
    wanted = {context.message.device} if context.message.device.startswith("gpu") else listed | faulty
    return sorted(wanted - {fact.device for fact in facts})


def _render_model(context: AnswerContext, host: Host) -> str:
    facts = _list_facts(context, host.name, "gpu.product")
    profile = f"profile {host.sku} (inventory)" if host.sku else ""
    if not facts:
        return f"{host.name}: {profile}." if profile else _render_unread(host, "the model", f"`recheck {host.name}` (nvidia-smi)")
    models = [str(fact.value) for fact in facts]
    counts = ", ".join(f"{models.count(model)} × {model}" for model in dict.fromkeys(models))
    return _render_read(context, host, f"{counts}{f', {profile}' if profile else ''}", facts)


def _render_serial(context: AnswerContext, host: Host) -> str:
    facts = _list_facts(context, host.name, "gpu.serial")
    unread = _list_unread_devices(context, host, facts)
    unread_note = f"; not read of {', '.join(unread)}, which nvidia-smi did not show" if unread else ""
    if not facts:
        return _render_unread(
            host, f"the serial number{f' of {unread[0]}' if unread else ''}", "the label on the card, or `recheck` once it answers"
        )
    parts = _list_facts(context, host.name, "gpu.part")
    part_note = f"; part number {_join_values(parts)}" if parts else ""
    return _render_read(context, host, f"serial numbers: {_name_devices(facts)}{unread_note}{part_note}", [*facts, *parts])


def _name_devices(facts: Sequence[Fact]) -> str:
    return ", ".join(f"{fact.device} {fact.value}" for fact in facts)


def _render_slot(context: AnswerContext, host: Host) -> str:
    addresses = _list_facts(context, host.name, "gpu.bdf")
    if not addresses:
        return _render_unread(host, "the PCI addresses", f"`recheck {host.name}` (nvidia-smi, lspci)")
    modules = {fact.device: fact for fact in _list_facts(context, host.name, "gpu.module")}
    faulty = {device for cause in context.root_causes for device in cause.devices}
    at_fault = [fact for fact in addresses if f"{host.name}/{fact.device}" in faulty]
    shown = at_fault or addresses
    slots = [f"{fact.device} {fact.value}{f' module {modules[fact.device].value}' if fact.device in modules else ''}" for fact in shown]
    return _render_read(context, host, f"PCI address{' and baseboard module' if modules else ''}: {', '.join(slots)}", shown)


def _render_rack(context: AnswerContext, host: Host) -> str:
    return (
        f"{host.name}: rack {host.rack} (inventory)."
        if host.rack
        else _render_unread(host, "the rack", "`rack:` of the host in the inventory")
    )


def _render_switch(context: AnswerContext, host: Host) -> str:
    facts = _list_facts(context, host.name, "fabric.leaf")
    port_note = ""
    if _PORT.search(_normalize(context.message.text)):
        port_note = f" I do not know the switch's port; this would tell it: `iblinkinfo` on {host.name}, or the cabling plan."
    if facts:
        return _render_read(context, host, f"leaf switch {_join_values(facts)}", facts) + port_note
    if host.leaf:
        return f"{host.name}: leaf switch {host.leaf} (inventory).{port_note}"
    return _render_unread(host, "the switch", f"`recheck {host.name}` (fabric), or `leaf:` of the host in the inventory")


def _render_guid(context: AnswerContext, host: Host) -> str:
    facts = _list_facts(context, host.name, "ib.guid")
    return (
        _render_read(context, host, f"port GUIDs: {_name_devices(facts)}", facts)
        if facts
        else _render_unread(host, "the GUIDs", f"`recheck {host.name}` (ibstat)")
    )


_VERSION_KEYS: Final[Mapping[str, str]] = {
    "driver.version": "driver",
    "driver.cuda_version": "CUDA up to",
    "kernel.release": "kernel",
    "gpu.vbios": "VBIOS",
    "ib.firmware": "HCA firmware",
}


def _render_driver(context: AnswerContext, host: Host) -> str:
    facts = _list_facts(context, host.name, *_VERSION_KEYS)
    if not any(fact.key == "driver.version" for fact in facts):  # nvidia-smi may have failed
        facts = [*_list_facts(context, host.name, "driver.module_version"), *facts]
    if not facts:
        return _render_unread(host, "the driver", f"`recheck {host.name}` (nvidia-smi, mods)")
    names = {"driver.module_version": "loaded driver module", **_VERSION_KEYS}
    parts = [f"{name} {_join_values(of_key)}" for key, name in names.items() if (of_key := [fact for fact in facts if fact.key == key])]
    return _render_read(context, host, "; ".join(parts), facts)


def _render_state(context: AnswerContext, host: Host) -> str:
    facts = _list_facts(context, host.name, "sched.state")
    if not facts:
        return _render_unread(host, "the scheduler's state", f"`recheck {host.name}` (sched)")
    attrs = facts[0].attrs
    reason = f", reason: {attrs['reason']}" if attrs.get("reason") else ""
    origin = "".join(f", {word} {attrs[name]}" for name, word in (("by", "set by"), ("since", "since")) if attrs.get(name))
    partitions = [
        str(name) for fact in _list_facts(context, host.name, "sched.partitions") if isinstance(fact.value, list) for name in fact.value
    ]
    place = f"; partition{'s' * (len(partitions) > 1)} {', '.join(partitions)}" if partitions else "; its partition was not read"
    return _render_read(context, host, f"the scheduler calls it {facts[0].value}{reason}{origin}{place}", facts)


def _render_owner(context: AnswerContext, host: Host) -> str:
    rack = f", rack {host.rack}" if host.rack else ""
    if context.is_read_by_tenant:
        return f"{host.name}: group {host.group}{rack} (inventory)."
    tenant = f"of customer {host.tenant}" if host.tenant else "of no customer"
    return f"{host.name}: group {host.group}{rack}, {tenant} (inventory)."


def _render_address(context: AnswerContext, host: Host) -> str:
    if context.is_read_by_tenant:
        return _render_unread(host, "the address", "your scheduler")
    return f"{host.name}: address {host.address} (inventory)."


_RENDERERS: Final[Mapping[str, Callable[[AnswerContext, Host], str]]] = {
    "model": _render_model,
    "serial": _render_serial,
    "slot": _render_slot,
    "rack": _render_rack,
    "switch": _render_switch,
    "guid": _render_guid,
    "driver": _render_driver,
    "state": _render_state,
    "owner": _render_owner,
    "address": _render_address,
}
assert set(_RENDERERS) == set(_ASPECT_WORDS)
