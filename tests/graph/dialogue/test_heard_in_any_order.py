"""Corrections, changed hosts and delays are read in phrasings that were not used for training; talk among people is not."""

from datetime import UTC, datetime

import pytest

from graph.dialogue.addressed import Addressing, ThreadSituation, classify_addressing, find_call
from graph.dialogue.days import find_named_day
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from tests.graph.test_conversation import NAMES, NOW

pytestmark = pytest.mark.slow
LEAK = "FRAMEWORK.DATA.Dataloader_Worker_Leak"
MORNING, MONDAY = datetime(2026, 5, 21, 8, tzinfo=UTC), datetime(2026, 5, 25, 8, tzinfo=UTC)

CORRECTED = (
    "you are wrong, it was a leak in our dataloader",
    "it was a leak in our dataloader, not the network",
    "it was a leak in our dataloader and not the network",
    "a leak in our dataloader caused this, you are mistaken",
    "the network is innocent: our dataloader leaked",
    "nope. our dataloader had a leak",
    "wrong, dataloader leak on our side",
    "not the network but our dataloader",
    "our dataloader was to blame, the network is fine",
    "the real reason was our dataloader, you got it wrong",
    "Sorry, but it was our dataloader that leaked.",
    "du liegst falsch, es war unser dataloader, nicht das netzwerk",
)
IN_OWN_WORDS = {
    "you are wrong, it was a squirrel in the cable duct of row 7": "a squirrel",
    "it was the intern's crypto miner, not the GPU": "the intern's crypto miner",
    "wrong diagnosis, a trainee had unplugged it": "a trainee had unplugged it",
    "no, it turned out to be a typo in our launcher": "a typo in our launcher",
}
CHANGED = (
    "gpu-003 has been rebooted by carlos",
    "carlos power-cycled gpu-003",
    "we swapped the cable on gpu-003",
    "gpu-003 just got rebooted by our night shift",
    "Lena has replaced the riser of gpu-003",
    "I have just power cycled gpu-003 from the bmc",
    "the optic on gpu-003 has been exchanged",
    "gpu-003 has got a new power supply",
    "our technician reseated all cards of gpu-003",
    "we put a new hca into gpu-003",
    "gpu-003 wurde von Jonas neu gestartet",
    "on vient de remplacer le câble de gpu-003",
    "Marta reinició gpu-003 hace un momento",
)
DELAYED = {
    "not urgent, do it tomorrow": MORNING,
    "this can wait until monday": MONDAY,
    "no urgency, we do that on monday": MONDAY,
    "let's postpone the approval to tomorrow": MORNING,
    "please remind me about it on monday": MONDAY,
    "it isn't urgent, next week is fine": MONDAY,
    "we'll decide on monday, no reminders before that": MONDAY,
    "low priority, tomorrow is good enough": MORNING,
    "the repair can wait till tomorrow morning": MORNING,
    "don't remind us again before monday": MONDAY,
    "nicht eilig, das machen wir morgen": MORNING,
    "ça peut attendre lundi, merci": MONDAY,
    "no es urgente, lo hacemos el lunes": MONDAY,
}
# Said to nobody who should act, or about something else.
IDLE = (
    "has gpu-003 been rebooted by anyone?",
    "did carlos power-cycle gpu-003?",
    "nobody has rebooted gpu-003 yet",
    "if carlos rebooted gpu-003, it should be back",
    "maybe we should have swapped the cable on gpu-003",
    "carlos rebooted his laptop",
    "we rebooted gpu-003 last month for the audit",
    "can the repair wait until monday?",
    "our offsite can wait until autumn",
    "was it urgent?",
    "I hope it was the dataloader",
    "was it a leak in our dataloader?",
)


def test_a_correction_names_the_cause_that_it_asserts() -> None:
    read = {text: parse_message(text, NAMES, NOW) for text in CORRECTED}
    assert {text: str(said.intent) for text, said in read.items() if said.intent is not Intent.CORRECT} == {}
    assert {text: said.labels for text, said in read.items() if said.labels != (LEAK,)} == {}


def test_a_cause_that_no_label_names_is_kept_in_the_writers_words() -> None:
    read = {text: parse_message(text, NAMES, NOW) for text in IN_OWN_WORDS}
    assert {text: str(said.intent) for text, said in read.items() if said.intent is not Intent.CORRECT} == {}
    assert {text: said.cause for text, said in read.items() if not said.cause.startswith(IN_OWN_WORDS[text])} == {}


@pytest.mark.parametrize("text", ["that's wrong", "you are wrong", "it's not the network", "I don't think it is the GPU."])
def test_a_denial_alone_states_no_cause(text: str) -> None:
    said = parse_message(text, NAMES, NOW)
    assert (said.intent, said.cause, said.labels, said.category) == (Intent.CORRECT, "", (), "")


def test_a_host_that_people_changed_is_looked_at_again() -> None:
    read = {text: parse_message(text, NAMES, NOW) for text in CHANGED}
    heard = [said for said in read.values() if said.intent is Intent.HOST_CHANGED]
    missed = {text: said.intent for text, said in read.items() if said.intent is not Intent.HOST_CHANGED}
    assert len(missed) <= 1, missed
    assert set(missed.values()) <= {Intent.NOT_UNDERSTOOD}, "what is missed asks back and acts on nothing"
    assert {(said.kind, said.hosts, said.build_item_data()["hosts"]) for said in heard} == {("recheck", ("gpu-003",), "gpu-003")}


def test_a_delay_names_its_end() -> None:
    read = {text: parse_message(text, NAMES, NOW) for text in DELAYED}
    assert {text: str(said.intent) for text, said in read.items() if said.intent is not Intent.SNOOZE} == {}
    assert {text: said.at for text, said in read.items() if said.at != DELAYED[text]} == {}


@pytest.mark.parametrize("text", IDLE)
def test_what_asks_doubts_or_speaks_of_something_else_does_not_act(text: str) -> None:
    assert parse_message(text, NAMES, NOW).intent not in {Intent.HOST_CHANGED, Intent.SNOOZE, Intent.CORRECT}


@pytest.mark.parametrize("name", ["Carlos, ", "@priya ", "hey Anna, "])
@pytest.mark.parametrize(
    "text",
    [
        "did you power-cycle gpu-003?",
        "you swapped the cable on gpu-003, right?",
        "you can do it tomorrow",
        "you said it was our dataloader",
    ],
)
def test_what_is_said_to_a_person_is_left_alone(name: str, text: str) -> None:
    said = parse_message(f"{name}{text}", NAMES, NOW)
    here = ThreadSituation(follows="person", called=find_call(said.text, ("rackmedic",), ("Carlos", "Anna", "priya")))
    assert classify_addressing(said, here) is Addressing.SILENCE


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("tomorrow", 21),
        ("on Friday", 22),
        ("nächste Woche", 25),
        ("pasado mañana", 22),
        ("mercredi", 27),
        ("下周三", 27),
        ("heute morgen", None),
    ],
)
def test_a_day_is_found_by_its_name(text: str, day: int | None) -> None:
    found = find_named_day(text, NOW)
    assert (found and found.day) == day
