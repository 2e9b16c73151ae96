"""All text of people, hosts and logs is read in linear time and answered: whoever writes four times as much costs four times as much, no more.

Functions are found by their signature (`strangers.readers`), so that a new one is held to it as well. What is compared is the processor's time of
one thread for the same text at two sizes, the best of some readings where the first is suspect.
"""

import re
import time

import pytest

from tests.properties.strangers import LEFT_OUT, OWN, TEXTS, WITHIN, Reader, readers

SIZES, TIMES = (1_000, 2_000), 4
"""Four times the first is still below the cap of what people say: who cuts at 4,000 takes as long for 8,000, however slow it is below."""
MOST = 11.0
"""Linear is 4, quadratic 16. What a card must cut first costs a step of its own, so that a linear one was seen at 9."""
TOO_LITTLE = 0.004
"""Seconds of the processor: below it a clock tells nothing of growth. A quadratic function of note takes longer at the larger size."""
EVERY = tuple(readers())


def spent(read: Reader, text: str) -> float:
    start = time.thread_time()
    read(text)
    return time.thread_time() - start


def growth(read: Reader, small: str, large: str) -> float:
    """How many times as long the larger takes; the least of a few readings, for whatever else happens on a machine only adds."""
    least = spent(read, large)
    if least < TOO_LITTLE:
        return 0.0
    ratio = least / max(spent(read, small), 1e-6)
    for _ in range(4):
        if ratio <= MOST:
            break
        shorter = min(spent(read, small) for _ in range(3))
        ratio = min(spent(read, large) for _ in range(3)) / max(shorter, 1e-6)
    return ratio


@pytest.mark.tier3  # measured by the clock
@pytest.mark.parametrize("read", [pytest.param(read, id=where) for where, read in EVERY])
def test_four_times_the_text_costs_four_times_the_work(read: Reader) -> None:
    texts = [(name, make, size) for name, make in TEXTS.items() for size in SIZES]
    grew = {f"{name} of {size}": growth(read, make(size), make(size * TIMES)) for name, make, size in texts}
    assert {name: round(ratio, 1) for name, ratio in grew.items() if ratio > MOST} == {}


def test_quadratic_work_would_be_seen() -> None:
    def pairs(text: str) -> int:
        return sum(1 for _ in text for _ in text)  # a count in C is so quick that what surrounds it weighs as much

    short = "a" * 500
    assert any(
        growth(pairs, short, short * TIMES) > MOST for _ in range(10)
    )  # `growth` believes the kindest reading, and a machine may be busy


def test_functions_of_every_room_that_reads_strangers_are_among_them() -> None:
    rooms = {where.rsplit(".", 2)[0] for where, _ in EVERY}
    assert {
        "graph.dialogue",
        "graph.extraction",
        "bot.incidents.handlers",
        "bot.cards",
        "kb",
        "kb.logs.job",
        "kb.logs.kernel",
        "tools.checks",
    } <= rooms
    called = {where for where, _ in EVERY}
    assert not LEFT_OUT.keys() & called
    assert all(named <= called for why in LEFT_OUT.values() if (named := {*re.findall(r"`([\w.]+)`", why)})), "reads with what is not here"
    assert (OWN.keys() | WITHIN.keys()) <= called, "a function that is no longer there"
