"""Limit the facts of one answer and report the rest as left out: a log's writer can name any number of devices."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from kb.numbers import is_storable
from tools.fact import Fact, Status

MAX_FACTS = 4096  # facts of one answer; a real host gives a few thousand at most
MAX_DEVICES = 512  # devices with the same key and value in one answer; eight GPUs with eighteen links each are 144
LEFT_OUT_ATTR = "left_out"  # attribute: number of facts left out


def limit_facts(check: str, facts: Sequence[Fact], gone: int = 0) -> tuple[Fact, ...]:
    """Keep the first facts, a job's first error before all others; the rest plus `gone` becomes one unobserved fact."""
    kept_facts = _select_first_facts(facts) if len(facts) > min(MAX_FACTS, MAX_DEVICES) else tuple(facts)
    if any(isinstance(fact.value, int | float) and not is_storable(fact.value) for fact in kept_facts):
        kept_facts = tuple(fact if is_storable(fact.value) else _mark_unreadable(fact) for fact in kept_facts)
    lost = gone + len(facts) - len(kept_facts)
    return (*kept_facts, build_left_out_fact(check, lost)) if lost else kept_facts


def _mark_unreadable(fact: Fact) -> Fact:
    """Drop only the impossible number."""
    return replace(fact, value=None, status=Status.UNREADABLE, line=fact.line[:200])


def build_left_out_fact(check: str, count: int) -> Fact:
    """Return the fact that `count` facts were dropped."""
    note = f"could not look at all: {count:,} more things that it says were left out"
    return Fact(check, "", status=Status.UNREADABLE, line=note, attrs={LEFT_OUT_ATTR: count})


def count_left_out(facts: Sequence[Fact]) -> int:
    return sum(int(fact.attrs[LEFT_OUT_ATTR]) for fact in facts if LEFT_OUT_ATTR in fact.attrs and not fact.key)


def _select_first_facts(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    devices: dict[tuple[str, str], set[str]] = defaultdict(set)
    ahead, rest = [], []
    for fact in facts:
        if fact.attrs.get("first") is True or fact.status.blind:
            ahead.append(fact)
            continue
        same = devices[fact.key, repr(fact.value)]
        if fact.device is None or fact.device in same or len(same) < MAX_DEVICES:
            same |= {fact.device} if fact.device is not None else set()
            rest.append(fact)
    room = max(0, MAX_FACTS - len(ahead))
    return (*ahead[:MAX_FACTS], *rest[:room]) if len(ahead) + len(rest) > MAX_FACTS else _restore_order(facts, ahead, rest)


def _restore_order(facts: Sequence[Fact], *parts: Sequence[Fact]) -> tuple[Fact, ...]:
    fact_ids = {id(fact) for part in parts for fact in part}
    return tuple(fact for fact in facts if id(fact) in fact_ids)
