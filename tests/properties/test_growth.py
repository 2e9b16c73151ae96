"""All untrusted text is processed in linear time: four times the text costs four times the work.

Functions are found by signature (`strangers.readers`), so new ones are covered. Compares one thread's CPU time at two
sizes, the best of several runs if the first is suspicious.
"""

import re
import time

import pytest

from tests.properties.strangers import LEFT_OUT, OWN, TEXTS, WITHIN, Reader, readers

# Four times the first stays below the 4,000-character cap, above which truncation would hide the growth.
SIZES, TIMES = (1_000, 2_000), 4
MOST = 11.0  # Linear is 4, quadratic 16. Truncation on a card costs an extra step: a linear function measured 9.
TOO_LITTLE = 0.004  # CPU seconds below which growth cannot be measured; a relevant quadratic function takes longer
EVERY = tuple(readers())


def spent(read: Reader, text: str) -> float:
    start = time.thread_time()
    read(text)
    return time.thread_time() - start


def growth(read: Reader, small: str, large: str) -> float:
    """Return the time ratio, the least of several runs, because other load only adds."""
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
        return sum(1 for _ in text for _ in text)  # a count in C is so fast that its surroundings weigh as much

    short = "a" * 500
    assert any(
        growth(pairs, short, short * TIMES) > MOST for _ in range(10)
    )  # `growth` takes the most favourable run, and a machine may be busy


def test_functions_of_every_room_that_reads_strangers_are_among_them() -> None:
    rooms = {where.rsplit(".", 2)[0] for where, _ in EVERY}
    assert {
        "graph.dialogue",
        "graph.extraction",
        "bot.incidents.handlers",
        "bot.cards",
        "kb",
        "kb.logs",
        "tools.checks",
    } <= rooms
    called = {where for where, _ in EVERY}
    assert not LEFT_OUT.keys() & called
    assert all(named <= called for why in LEFT_OUT.values() if (named := {*re.findall(r"`([\w.]+)`", why)})), "reads with what is not here"
    assert (OWN.keys() | WITHIN.keys()) <= called, "a function that is no longer there"
