"""As many facts of one answer as any machine has, and how many were left out. Whoever can write a log can name any number of devices. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from kb.numbers import is_storable
from tools.fact import Fact, Status

MAX_FACTS = 4096
"""Facts of one answer. The largest that a machine gives by itself is a few thousand."""
MAX_DEVICES = 512
"""Devices of which one answer says the same: eight GPUs with eighteen links each are 144."""
LEFT_OUT_ATTR = "left_out"
"""The attribute that says how many facts an answer lacks."""


def limit_facts(check: str, facts: Sequence[Fact], gone: int = 0) -> tuple[Fact, ...]:
    """The first of them, a job's first error before all others; the rest (and `gone`, which were left out before) is counted and said as
    what was not looked at."""
    kept = _select_first_facts(facts) if len(facts) > min(MAX_FACTS, MAX_DEVICES) else tuple(facts)
    if any(isinstance(fact.value, int | float) and not is_storable(fact.value) for fact in kept):
        kept = tuple(fact if is_storable(fact.value) else _mark_unreadable(fact) for fact in kept)
    lost = gone + len(facts) - len(kept)
    return (*kept, build_left_out_fact(check, lost)) if lost else kept


def _mark_unreadable(fact: Fact) -> Fact:
    """A number that no machine has is no value; the others of the answer stand."""
    return replace(fact, value=None, status=Status.UNREADABLE, line=fact.line[:200])


def build_left_out_fact(check: str, count: int) -> Fact:
    """That so many facts of an answer were not kept: it was not looked at whole."""
    why = f"could not look at all: {count:,} more things that it says were left out"
    return Fact(check, "", status=Status.UNREADABLE, line=why, attrs={LEFT_OUT_ATTR: count})


def count_left_out(facts: Sequence[Fact]) -> int:
    """How many facts answers lack."""
    return sum(int(fact.attrs[LEFT_OUT_ATTR]) for fact in facts if LEFT_OUT_ATTR in fact.attrs and not fact.key)


def _select_first_facts(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    devices: dict[tuple[str, str], set[str]] = defaultdict(set)
    ahead, kept = [], []
    for fact in facts:
        if fact.attrs.get("first") is True or fact.status.blind:
            ahead.append(fact)
            continue
        same = devices[fact.key, repr(fact.value)]
        if fact.device is None or fact.device in same or len(same) < MAX_DEVICES:
            same |= {fact.device} if fact.device is not None else set()
            kept.append(fact)
    room = max(0, MAX_FACTS - len(ahead))
    return (*ahead[:MAX_FACTS], *kept[:room]) if len(ahead) + len(kept) > MAX_FACTS else _restore_order(facts, ahead, kept)


def _restore_order(facts: Sequence[Fact], *parts: Sequence[Fact]) -> tuple[Fact, ...]:
    wanted = {id(fact) for part in parts for fact in part}
    return tuple(fact for fact in facts if id(fact) in wanted)
