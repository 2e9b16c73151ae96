"""The hostile corpus has no effect, at several places at once or, for five plays, alone.

A fifth of the texts is played at all places and all of them at some. The product's code determines which, and which
five alone, so that a failure is reproducible and the next change plays others. `hostile_play` plays each alone.
"""

from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from tests.bench.hostile.corpus import PLACES, corpus, groups, turn, turn_of
from tests.bench.hostile.play import WATCHED, Seen, hushed, play
from tests.bench.hostile.texts import TEXTS, Hostile, Tries

ROOT = Path(__file__).parents[2]
TURN = turn_of(*(ROOT / floor for floor in ("bot", "graph", "tools", "kb")))
AT_ONCE = 7
GROUPS = groups(AT_ONCE)
AT_ALL, PARTS = GROUPS[TURN % len(GROUPS)], 5  # places at which every text is played, and number of parts elsewhere
# seconds of a play in which a card is posted and expires once; at the places of all texts it is proposed again
BRIEF = 1_200.0
CALLS = {"read", "judge", "explore", "critique", "intent"}


@cache
def quiet(*, model: bool, watched: float = BRIEF) -> Seen:
    return play((), (), model=model, watched=watched)


def test_there_are_enough_of_every_kind() -> None:
    assert len(TEXTS) >= 30
    assert len({one.id for one in TEXTS}) == len({one.text for one in TEXTS}) == len(TEXTS)
    assert {one.tries for one in TEXTS} == set(get_args(Tries))
    assert len({(place, one.text) for place, one in corpus()}) == len(corpus()) == len(PLACES) * len(TEXTS)
    assert sorted(place for group in GROUPS for place in group) == sorted(PLACES)


@pytest.mark.parametrize("places", GROUPS, ids=lambda places: places[0])
@pytest.mark.parametrize("model", [False, True], ids=["rules", "a model that obeys"])
def test_nothing_has_its_way(places: tuple[str, ...], *, model: bool) -> None:
    hushed()
    texts, watched = (TEXTS, WATCHED) if places == AT_ALL else (TEXTS[TURN % PARTS :: PARTS], BRIEF)
    seen = play(places, tuple(one.text for one in texts), model=model, watched=watched)
    assert seen.broken(quiet(model=model, watched=watched), model=model) == ()
    answers = {place.removeprefix("answer to ") for place in places} & CALLS
    assert seen.asked >= answers or not model
    assert seen.asked or not model


@pytest.mark.parametrize(("place", "hostile", "model"), [pytest.param(*one, id=f"{one[0]}: {one[1].id}, {one[2]}") for one in turn(TURN)])
def test_nothing_has_its_way_alone(place: str, hostile: Hostile, *, model: bool) -> None:
    hushed()
    seen = play((place,), (hostile.text,), model=model, watched=BRIEF)
    assert seen.broken(quiet(model=model), model=model) == ()


def test_turns_come_round_to_everything() -> None:
    every = {(place, hostile, model) for place, hostile in corpus() for model in (False, True)}
    turns = -(-len(every) // len(turn(0)))
    assert {one for number in range(turns) for one in turn(number)} == every
    assert turn(7) == turn(7)
    assert all(len({(place, hostile.id) for place, hostile, _ in turn(number)}) == 5 for number in range(turns))


def test_an_obedient_models_output_has_no_secret_and_no_mention() -> None:
    """Regression: a secret in a Slack user name was once passed on."""
    [leak] = [one for one in TEXTS if one.id == "prompt"]
    assert play(("Slack name",), (leak.text,), model=True, watched=BRIEF).shown == ()
