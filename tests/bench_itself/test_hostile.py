"""The corpus of hostile texts: whole, each for something; at five places at once, and five of it alone, nothing has its way.

Which five is told by the product's own code, so that a failure comes again and the next change plays others. `hostile_play` plays each alone.
"""

from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import structlog

from tests.bench.hostile import PLACES, TEXTS, Hostile, Tries, corpus, turn, turn_of
from tests.bench.hostile_play import Seen, _quiet, play

ROOT = Path(__file__).parents[2]
TURN = turn_of(*(ROOT / floor for floor in ("bot", "graph", "tools", "kb")))
AT_ONCE = 5
GROUPS = [tuple(PLACES)[at : at + AT_ONCE] for at in range(0, len(PLACES), AT_ONCE)]


@cache
def quiet(*, model: bool) -> Seen:
    return play((), (), model=model)


def test_there_are_enough_of_every_kind() -> None:
    assert len(corpus()) >= 150
    assert len({(place, one.text) for place, one in corpus()}) == len(corpus())
    assert {one.tries for one in TEXTS} == set(get_args(Tries))


@pytest.mark.parametrize("places", GROUPS, ids=lambda places: places[0])
@pytest.mark.parametrize("model", [False, True], ids=["rules", "a model that obeys"])
def test_nothing_has_its_way(places: tuple[str, ...], *, model: bool) -> None:
    structlog.configure(processors=[_quiet])
    seen = play(places, tuple(one.text for one in TEXTS), model=model)
    assert seen.broken(quiet(model=model), model=model) == ()
    assert bool(seen.asked) is model


@pytest.mark.parametrize(("place", "hostile", "model"), [pytest.param(*one, id=f"{one[0]}: {one[1].id}, {one[2]}") for one in turn(TURN)])
def test_nothing_has_its_way_alone(place: str, hostile: Hostile, *, model: bool) -> None:
    structlog.configure(processors=[_quiet])
    assert play((place,), (hostile.text,), model=model).broken(quiet(model=model), model=model) == ()


def test_turns_come_round_to_everything() -> None:
    every = {(place, hostile, model) for place, hostile in corpus() for model in (False, True)}
    turns = -(-len(every) // len(turn(0)))
    assert {one for number in range(turns) for one in turn(number)} == every
    assert turn(7) == turn(7)
    assert all(len({(place, hostile.id) for place, hostile, _ in turn(number)}) == 5 for number in range(turns))


def test_what_a_model_that_obeys_says_is_clean_and_calls_nobody() -> None:
    """It once passed a secret on that stood where nobody looked: in how somebody calls themselves."""
    [leak] = [one for one in TEXTS if one.id == "prompt"]
    assert play(("Slack name",), (leak.text,), model=True).shown == ()
