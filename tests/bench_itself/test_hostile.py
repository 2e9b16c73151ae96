"""The corpus of hostile texts: whole, each for something, and in sixes of places at once nothing of it has its way. `hostile_play` plays each alone."""

from functools import cache
from typing import get_args

import pytest
import structlog

from tests.bench.hostile import PLACES, TEXTS, Tries, corpus
from tests.bench.hostile_play import Seen, _quiet, play

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
