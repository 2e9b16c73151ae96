"""Version 2's additional hard cases: the best checks fail, or a check or controller tells half the truth. The first 200
hard cases are version 1's, byte for byte.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import InjectedFault
from deploy.sandbox.cluster.seeded_random import make_random
from tests.bench.case_files import generate
from tests.bench.case_files.generate import Draft, Seed, happening
from tests.bench.case_files.truth import table

VERSION = 2
FIRST = 200  # number of version 1's hard cases
# kinds of further cases and their number, in this order
KINDS = (("two blind", 40), ("seldom seen", 5), ("two causes", 5), ("cut", 5), ("exclusive", 5), ("disagree", 5))
MORE = sum(count for _, count in KINDS)


def kind_of(index: int) -> str:
    """Return the kind of a hard case, "" for version 1's. The kinds repeat after the last one."""
    if index < FIRST:
        return ""
    at = (index - FIRST) % MORE
    for kind, count in KINDS:
        if at < count:
            return kind
        at -= count
    raise AssertionError(index)


def harder(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Draw the hard case `index`, from FIRST on."""
    return _DRAW[kind_of(index)](index - FIRST, roll, seed)


def _looks(fault: str) -> list[str]:
    """Return the checks that show a fault without a load test, best first."""
    return [check for check in table()[fault].shows if check in generate.LOOKS]


def _place(fault: str, roll: random.Random) -> tuple[str, tuple[str, ...], InjectedFault]:
    profile, nodes = generate.profile_of(fault, roll), generate.names_of(roll.choice((3, 4, 5)), roll)
    return profile, nodes, happening(fault, nodes, profile, roll)


def _turn(index: int, seed: Seed, kind: str, fit: Callable[[str], bool]) -> str:
    """Return fitting faults equally often, in a seeded order."""
    order = [fault for fault in sorted(FAULTS) if fault != generate.OUTSIDE and fit(fault)]
    make_random(0, "harder", kind, seed).shuffle(order)
    return order[index % len(order)]


def _two_blind(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Make the two best checks fail on the faulty machine; a third remains."""
    fault = _turn(index, seed, "two blind", lambda one: len(_looks(one)) >= 3)
    profile, nodes, row = _place(fault, roll)
    where = "" if FAULTS[fault].once else f"@{roll.choice(row.nodes)}"
    blind = tuple(f"R6(check={check}, how={roll.choice(('timeout', 'denied', 'missing'))}){where}" for check in _looks(fault)[:2])
    return Draft(profile, nodes, (row,), (*blind, *generate.difficulties((row,), nodes, roll, roll.choice((1, 2)), gentle=True)))


def _seldom_seen(index: int, roll: random.Random, seed: Seed) -> Draft:
    fault = _turn(index, seed, "seldom seen", lambda one: FAULTS[one].scope in ("gpu", "node") and len(_looks(one)) >= 2)
    profile, nodes, row = _place(fault, roll)
    return Draft(profile, nodes, (row,), (f"R11(seen=1of3)@{row.nodes[0]}", *generate.difficulties((row,), nodes, roll, 2, gentle=True)))


def _two_causes(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Combine two causes with more difficulties than layer `composite`."""
    draft = generate.LAYERS["composite"](index, roll, f"{seed}/night")
    return replace(draft, modifiers=generate.difficulties(draft.rows, draft.nodes, roll, 3, gentle=True))


def _cut(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Truncate a log that a flood has filled."""
    fault = _turn(index, seed, "cut", lambda one: "dmesg" in _looks(one) and len(_looks(one)) >= 2)
    profile, nodes, row = _place(fault, roll)
    where = row.nodes[0]
    return Draft(
        profile,
        nodes,
        (row,),
        (f"R2(lines=2000)@{where}", f"R9(keep=last200)@{where}", *generate.difficulties((row,), nodes, roll, 1, gentle=True)),
    )


def _exclusive(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Draw a fault that only an exclusive test shows."""
    fault = _turn(index, seed, "exclusive", lambda one: not _looks(one))
    profile, nodes, row = _place(fault, roll)
    return Draft(profile, nodes, (row,), generate.difficulties((row,), nodes, roll, 2, gentle=True))


def _disagree(index: int, roll: random.Random, seed: Seed) -> Draft:
    """Let the controller report a healthy machine as down."""
    fault = _turn(
        index,
        seed,
        "disagree",
        lambda one: FAULTS[one].scope in ("gpu", "node") and "sched" not in table()[one].shows and len(_looks(one)) >= 2,
    )
    profile, nodes, row = _place(fault, roll)
    innocent = roll.choice([node for node in nodes if node not in row.nodes])
    outputs = {innocent: {"sched.shown": {"stdout": DOWN.format(node=innocent)}}}
    return Draft(profile, nodes, (row,), generate.difficulties((row,), nodes, roll, 2, gentle=True), outputs=outputs)


# scontrol's output for a node whose slurmd does not answer
DOWN = (
    "NodeName={node} Arch=x86_64 CoresPerSocket=56 CPUTot=224 Gres=gpu:8 NodeAddr={node} NodeHostName={node} State=DOWN*+DRAIN ThreadsPerCore=2 "
    "Weight=1 Partitions=gpu Reason=Not responding [slurm@2026-03-01T03:00:00]\n"
)

_DRAW: Mapping[str, Callable[[int, random.Random, Seed], Draft]] = {
    "two blind": _two_blind,
    "seldom seen": _seldom_seen,
    "two causes": _two_causes,
    "cut": _cut,
    "exclusive": _exclusive,
    "disagree": _disagree,
}
