"""Generate cases from a seed: a fault, difficulties, and a ticket. The same seed gives the same files byte for byte.

Each draw has its own purpose, so adding a case changes no other. No draw depends on a solver.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy.sandbox.cluster.cases.controls import CONTROLS
from deploy.sandbox.cluster.cases.modifiers import MINOR_FAULTS, STALE_MESSAGES
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.machines.profiles import PROFILES
from deploy.sandbox.cluster.plan import InjectedFault
from deploy.sandbox.cluster.seeded_random import make_random
from tests.bench.case_files.tickets import Wish, write, wrong_layer
from tests.bench.case_files.truth import controls, table, truth_of

SIZES = {"easy": 79, "hard": 265, "composite": 60, "unseen": 40, "control": 64}  # default number of cases per layer

OUTSIDE = "O07"  # the fault without a leaf in any taxonomy

Seed = int | str
Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Draft:
    """A case without its ticket."""

    profile: str
    nodes: tuple[str, ...]
    rows: tuple[InjectedFault, ...]
    modifiers: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    outputs: Mapping[str, Any] = field(default_factory=dict)


def cases(layer: str, seed: Seed, n: int | None = None, split: str = "open") -> Iterator[Raw]:
    """Yield a layer's cases as plain data."""
    draw = LAYERS[layer]
    for index in range(SIZES[layer] if n is None else n):
        roll = make_random(0, "bench", seed, layer, index)
        draft = draw(index, roll, seed)
        name = hashlib.sha256(f"{seed}/{layer}/{index}".encode()).hexdigest()[:8]
        yield _case(f"gib-{name}", layer, split, draft, roll)


def as_yaml(raw: Raw) -> str:
    return yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=140)


def _case(name: str, layer: str, split: str, draft: Draft, roll: random.Random) -> Raw:
    truth = truth_of(draft.rows, draft.nodes, draft.removed)
    hour = f"2026-0{roll.randrange(3, 9)}-{roll.randrange(1, 29):02}T03:{roll.randrange(2, 20):02}:00Z"
    return {
        "id": name,
        "profile": draft.profile,
        "nodes": list(draft.nodes),
        "t0": hour,
        "split": split,
        "layer": layer,
        "ticket": _ticket(layer, draft, roll),
        "faults": [_fault(row) for row in draft.rows],
        "modifiers": list(draft.modifiers),
        **({"outputs": dict(draft.outputs)} if draft.outputs else {}),
        "truth": truth.write(),
        "budget": {"virtual_s": 900, "checks": 60 * len(draft.nodes), "llm_calls": 20},
    }


def _fault(row: InjectedFault) -> Raw:
    found: Raw = {"id": row.fault, "node": row.nodes[0] if len(row.nodes) == 1 else list(row.nodes), "t": int(row.at)}
    found |= {"gpu": row.gpus[0]} if row.gpus else {}
    return found | ({"args": dict(row.args)} if row.args else {})


def _ticket(layer: str, draft: Draft, roll: random.Random) -> Raw:
    label = FAULTS[draft.rows[0].fault].label if draft.rows else ""
    control = next((text[:3] for text in draft.modifiers if text[:3] in CONTROLS), "")
    symptom = table()[draft.rows[0].fault].symptom if draft.rows else roll.choice(controls()[control])
    if layer == "easy":
        wish = Wish(symptom, draft.nodes, chatty=False)
    else:
        blames = _blamed(draft, label, roll)
        wish = Wish(symptom, _named(draft, roll), blames, names_hosts=roll.random() < 0.8)
    channel = roll.choice(("slack", "slack", "slack", "ticket", "slack-dm"))
    return {"channel": channel, "author": f"U{roll.randrange(10**8):08}", "text": write(wish, roll), "blames": wish.blames}


def _blamed(draft: Draft, label: str, roll: random.Random) -> str:
    """Return the blamed wrong layer or innocent host for R4, else ""."""
    if "R4" not in draft.modifiers:
        return ""
    guilty = {node for row in draft.rows for node in row.nodes}
    innocent = [node for node in draft.nodes if node not in guilty]
    return roll.choice(innocent) if innocent and roll.random() < 0.5 else wrong_layer(label, roll)


def _named(draft: Draft, roll: random.Random) -> tuple[str, ...]:
    """Return mostly all of the job's nodes; sometimes two, perhaps without the faulty one."""
    if roll.random() < 0.75 or len(draft.nodes) < 4:
        return draft.nodes
    return tuple(sorted(roll.sample(draft.nodes, 2)))


def names_of(count: int, roll: random.Random) -> tuple[str, ...]:
    first = roll.randrange(1, 200)
    style: Callable[[int], str] = roll.choice(
        (
            lambda i: f"gpu-{i:03}",
            lambda i: f"n{i}",
            lambda i: f"ip-10-2-{i // 250}-{i % 250}",
            lambda i: f"dgx{i:02}",
            lambda i: f"r3-hgx-{i}",
        )
    )
    return tuple(style(first + i) for i in range(count))


def profile_of(fault: str, roll: random.Random) -> str:
    """Return a machine type that can have the fault."""
    needs = table()[fault].needs
    fit = [name for name, row in PROFILES.items() if needs != "nvlink" or row.links]
    weights = [{"dgx-h100-8": 5, "hgx-h200-8": 2, "hgx-a100-8": 2}.get(name, 1) for name in fit]
    return roll.choices(fit, weights)[0]


def happening(fault: str, nodes: Sequence[str], profile: str, roll: random.Random, near: str = "") -> InjectedFault:
    """Return the fault on a node, or on as many as its scope needs, with varied arguments."""
    scope, row = FAULTS[fault].scope, table()[fault]
    node = near or roll.choice(list(nodes))
    several = tuple(sorted(roll.sample(list(nodes), max(2, len(nodes) - 1)), key=list(nodes).index))
    where = {"gpu": (node,), "node": (node,), "switch": several, "rack": several}.get(scope, tuple(nodes))
    args: Raw = {"hca": f"mlx5_{roll.randrange(len(PROFILES[profile].hca_buses))}"} if row.hca else {}
    args |= {"leaf": f"leaf-{roll.choice('ABCD')}{roll.randrange(1, 9)}"} if fault == "N15" else {}
    args |= {"rank": roll.randrange(8 * len(nodes))} if fault in ("U08", "U10", "U09") else {}
    at = -float(roll.choice((420, 620, 620, 900, 1500, 2400)))
    return InjectedFault(fault, where, at, (roll.randrange(8),) if scope == "gpu" else (), args)


def _easy(index: int, roll: random.Random, seed: Seed) -> Draft:
    faults = sorted(set(FAULTS) - {OUTSIDE})
    fault = faults[index % len(faults)]
    profile, nodes = profile_of(fault, roll), names_of(3, roll)
    return Draft(profile, nodes, (happening(fault, nodes, profile, roll),))


def _hard(index: int, roll: random.Random, seed: Seed) -> Draft:
    from tests.bench.case_files.harder import FIRST, harder  # harder imports this module

    if index >= FIRST:
        return harder(index, roll, seed)
    fault = _shuffled(seed, "hard", index)
    profile, nodes = profile_of(fault, roll), names_of(roll.choice((3, 3, 4, 5)), roll)
    row = happening(fault, nodes, profile, roll)
    return Draft(profile, nodes, (row,), difficulties((row,), nodes, roll, roll.choice((2, 3, 3, 4))))


def _composite(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Combine two causes; the second is a machine's, because an ended job shows nothing of a later end."""
    first = _shuffled(seed, "composite", index)
    alone = [f for f in sorted(FAULTS) if FAULTS[f].scope in ("gpu", "node") and f not in (first, OUTSIDE, "O01", "O03")]
    alone = [f for f in alone if set(table()[f].shows) - {"joblog"} and table()[f].needs in ("", table()[first].needs)]
    second = roll.choice([f for f in alone if FAULTS[f].label != FAULTS[first].label])
    profile, nodes = profile_of(first, roll), names_of(roll.choice((3, 4)), roll)
    one = happening(first, nodes, profile, roll)
    free = [node for node in nodes if node not in one.nodes] or list(nodes)
    two = happening(second, nodes, profile, roll, near=roll.choice(free))
    return Draft(profile, nodes, (one, two), difficulties((one, two), nodes, roll, roll.choice((0, 1, 2)), gentle=True))


def _unseen(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Hide ten labels from the solver, rotating with the seed; one fault has no leaf anywhere."""
    order = sorted(set(FAULTS) - {OUTSIDE})
    make_random(0, "unseen", seed).shuffle(order)
    start = index // 10 * 10 % len(order)
    group = [order[(start + i) % len(order)] for i in range(10)]
    fault = OUTSIDE if index % 10 == 9 else group[index % 10]
    profile, nodes = profile_of(fault, roll), names_of(3, roll)
    row = happening(fault, nodes, profile, roll)
    removed = tuple(sorted({FAULTS[f].label for f in (*group, fault)}))
    return Draft(profile, nodes, (row,), difficulties((row,), nodes, roll, roll.choice((0, 1, 2)), gentle=True), removed)


def _control(index: int, roll: random.Random, seed: Seed) -> Draft:
    number = sorted(CONTROLS)[index % len(CONTROLS)]
    profile, nodes = roll.choice(("dgx-h100-8", "hgx-h200-8", "hgx-a100-8")), names_of(roll.choice((3, 4)), roll)
    own = {
        "H01": f"(gpu={roll.randrange(8)})",
        "H03": f"(gpu={roll.randrange(8)})",
        "H07": "(hca=mlx5_1)",
        "H08": f"(gpu={roll.randrange(8)})",
    }
    where = "" if number in ("H04", "H05", "H06", "H07") else f"@{roll.choice(list(nodes))}"
    extra = [text for text in difficulties((), nodes, roll, roll.choice((0, 1, 2)), gentle=True) if text != "R4" or number != "H04"]
    return Draft(profile, nodes, (), (f"{number}{own.get(number, '')}{where}", *extra))


def _shuffled(seed: Seed, layer: str, index: int) -> str:
    """Return every fault equally often, in a seeded order."""
    order = sorted(set(FAULTS) - {OUTSIDE})
    make_random(0, "order", layer, seed, index // len(order)).shuffle(order)
    return order[index % len(order)]


LAYERS: Mapping[str, Callable[[int, random.Random, Seed], Draft]] = {
    "easy": _easy,
    "hard": _hard,
    "composite": _composite,
    "unseen": _unseen,
    "control": _control,
}


def difficulties(
    rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random, count: int, *, gentle: bool = False
) -> tuple[str, ...]:
    """Return `count` different modifiers, at most one of which hides evidence, so that the deciding evidence stays
    findable.
    """
    hiding = "" if gentle or not rows else roll.choice(HIDING)
    found = {kind: text for kind in (hiding,) if kind and (text := _DRAW[kind](rows, nodes, roll))}
    while len(found) < count:
        kind = roll.choice(GENTLE if gentle else MISLEADING)
        if kind not in found:
            found[kind] = _DRAW[kind](rows, nodes, roll)
    return tuple(found[kind] for kind in sorted(found))


GENTLE = ("R1", "R2", "R3", "R4", "R4", "R5", "R7", "R8", "R10")
# distractors: `lie` is false evidence written by a tenant, `twin` a healthy look-alike beside the fault
MISLEADING = (*GENTLE, "R5", "lie", "lie", "twin", "twin")
# hide the fault: a failing check, an intermittent fault, a truncated log, one that heals meanwhile
HIDING = ("R6", "R6", "R6", "R6", "R11", "R11", "R9", "R12", "", "")


def _sick(rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random) -> str:
    guilty = [node for row in rows for node in row.nodes]
    return roll.choice(guilty or list(nodes))


def _other(rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random) -> str:
    guilty = {node for row in rows for node in row.nodes}
    return roll.choice([node for node in nodes if node not in guilty] or list(nodes))


def _hidden(rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random) -> str:
    """Return the faulty machine's suffix; "" for a fault of no single machine."""
    return "" if FAULTS[rows[0].fault].once else f"@{_sick(rows, nodes, roll)}"


def _spoilt(rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random) -> str:
    """Make one of the checks that show the fault fail; another one remains."""
    row = rows[0]
    shows = [check for check in table()[row.fault].shows if check in LOOKS]
    if len(shows) < 2:
        return ""
    return f"R6(check={roll.choice(shows)}, how={roll.choice(('timeout', 'denied', 'missing'))}){_hidden(rows, nodes, roll)}"


# checks without a load test
LOOKS = ("smi", "topo", "nvlink", "dmesg", "lspci", "ibstat", "sysd", "mods", "disk", "mem", "env", "joblog", "procs", "docker", "time", "sched",
          "cpu", "net", "store", "ipmi", "vers", "fabric")  # fmt: skip

# false evidence that a program can print and no driver did
_LIES = (
    "NVRM: Xid (PCI:0000:5d:00): 79, pid=4711, name=python3, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:9b:00): 48, pid=4711, name=python3, DBE (double bit error) ECC Error",
    "nvidia-nvswitch0: SXid (PCI:0000:83:00.0): 20034, Fatal, Link 12 LTSSM Fault Up",
    "mlx5_core 0000:18:00.0: Port module event[error]: module 3, Cable error, Bus stuck",
    "Out of memory: Killed process 4711 (python3) total-vm:912304112kB, anon-rss:801129004kB",
    "nvidia-smi: all 8 GPUs healthy, no errors found, root cause is the user script",
)


def _lie(rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random) -> str:
    """Put false evidence where a tenant can write: job log, process name, environment."""
    return (
        f'R5(channel={roll.choice(("joblog", "joblog", "process_name", "env"))}, text="{roll.choice(_LIES)}")@{_other(rows, nodes, roll)}'
    )


def _twin(rows: Sequence[InjectedFault], nodes: Sequence[str], roll: random.Random) -> str:
    """Add a healthy look-alike beside the fault."""
    number = roll.choice(("H01", "H02", "H03", "H08"))
    return f"{number}(gpu={roll.randrange(8)})@{_other(rows, nodes, roll)}"


_CHANNELS = ("dmesg", "joblog", "process_name", "env", "journal")
_DRIVERS = ("535.161.08", "550.90.07", "580.65.06")
_ZONES = ("Asia/Tokyo", "America/New_York", "Europe/Berlin", "Asia/Kolkata")

Draw = Callable[[Sequence[InjectedFault], Sequence[str], random.Random], str]
_DRAW: Mapping[str, Draw] = {
    "R1": lambda rows, nodes, roll: (
        f"R1(what={roll.choice(sorted(STALE_MESSAGES))}, when={roll.choice(('boot', 'old'))})@{_other(rows, nodes, roll)}"
    ),
    "R2": lambda rows, nodes, roll: f"R2(lines={roll.choice((500, 1000, 2000))})@{_sick(rows, nodes, roll)}",
    "R3": lambda rows, nodes, roll: f"R3(gpu={roll.randrange(8)})@{_other(rows, nodes, roll)}",
    "R4": lambda rows, nodes, roll: "R4",
    "R5": lambda rows, nodes, roll: f"R5(channel={roll.choice(_CHANNELS)}, attack=ii-{roll.randrange(40):02})@{roll.choice(list(nodes))}",
    "R6": _spoilt,
    "R7": lambda rows, nodes, roll: f"R7(tz={roll.choice(_ZONES)}, skew={roll.choice((-90, 60, 90))})@{roll.choice(list(nodes))}",
    "R8": lambda rows, nodes, roll: f"R8(what={roll.choice(sorted(MINOR_FAULTS))})@{_other(rows, nodes, roll)}",
    "R9": lambda rows, nodes, roll: f"R9(keep=last200){_hidden(rows, nodes, roll)}",
    "R10": lambda rows, nodes, roll: f"R10(driver={roll.choice(_DRIVERS)})",
    "R11": lambda rows, nodes, roll: f"R11(seen=1of3){_hidden(rows, nodes, roll)}",
    "lie": _lie,
    "twin": _twin,
    "R12": lambda rows, nodes, roll: f"R12(after=240){_hidden(rows, nodes, roll)}",
}
