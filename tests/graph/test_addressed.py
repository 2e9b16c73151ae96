"""Which thread messages are meant for the bot: those are answered, the rest is ignored."""

from dataclasses import replace

import pytest

from graph.dialogue.addressed import (
    RULES,
    Addressing,
    ThreadSituation,
    can_answer,
    classify_addressing,
    find_call,
    is_mentioned,
    is_yes_or_no,
    mark_as_new_facts,
)
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage

ANSWER, TAKE, SILENCE, UNCLEAR = Addressing.ANSWER, Addressing.TAKE, Addressing.SILENCE, Addressing.UNCLEAR
US = ("rackmedic", "U0RACKMED")
SPEAKERS = ("olga", "priya", "dmitri")

# Who wrote last; a question mark: it was a question. `bot? me`: our question, then the person who writes now.
BEFORE = {
    "bot": ThreadSituation(follows="us"),
    "bot?": ThreadSituation(follows="us", asked=True),
    "bot? me": ThreadSituation(follows="self", asked=True),
    "me": ThreadSituation(follows="self"),
    "priya": ThreadSituation(follows="person"),
    "priya?": ThreadSituation(follows="person", after_question=True),
    "-": ThreadSituation(),
}
UNSURE = Intent.NOT_UNDERSTOOD

# fmt: off
THREAD = [
    # before    what is said                                            parsed as                 what happens
    ("bot",     "what about gpu-002?",                                  Intent.HOST_STATE,        ANSWER),
    ("bot",     "and the others?",                                      Intent.GROUP_STATE,       ANSWER),
    ("bot",     "why not the network?",                                 Intent.WHY_NOT,           ANSWER),
    ("bot",     "show me dmesg of gpu-003",                             Intent.SHOW_OUTPUT,       ANSWER),
    ("bot",     "who is on it",                                         Intent.WHO_IS_ON_IT,      ANSWER),
    ("bot",     "I take it",                                            Intent.TAKE,              ANSWER),
    ("bot",     "thanks!",                                              Intent.THANKS,            ANSWER),
    ("bot",     "approve",                                              Intent.TYPED_APPROVAL,    ANSWER),
    ("bot",     "it works again",                                       Intent.FIXED,             ANSWER),
    ("bot",     "gpu-004 throws Xid 79 now",                            Intent.NEW_FACTS,         ANSWER),
    ("bot",     "we updated the driver at 02:00",                       Intent.NEW_FACTS,         ANSWER),
    ("bot",     "huh, that is the third one this week",                 UNSURE,              SILENCE),
    ("bot",     "I will be in the data centre at nine",                 UNSURE,              SILENCE),
    ("bot",     "lol",                                                  Intent.SMALL_TALK,        ANSWER),
    ("bot",     "which ports does that touch?",                         UNSURE,              ANSWER),
    ("bot",     "tell me how the gpus of that rack feel",               UNSURE,              ANSWER),
    ("bot",     "did you see the game last night?",                     UNSURE,              SILENCE),
    ("bot",     "the node next to it was loud yesterday",               UNSURE,              SILENCE),
    ("priya",   "which ports does that touch?",                         UNSURE,              SILENCE),
    ("-",       "status",                                               Intent.STATUS,            ANSWER),
    ("-",       "good morning all",                                     Intent.SMALL_TALK,        SILENCE),
    ("me",      "sorry, I meant gpu-005",                               Intent.NARROW,            ANSWER),
    ("me",      "thanks",                                               Intent.THANKS,            SILENCE),
    ("me",      "no wait",                                              UNSURE,              SILENCE),
    # people talking to each other
    ("priya",   "lunch?",                                               UNSURE,              SILENCE),
    ("priya",   "I saw the same last month, or was it another rack",    UNSURE,              SILENCE),
    ("priya",   "thanks a lot",                                         Intent.THANKS,            SILENCE),
    ("priya",   "haha good one",                                        Intent.SMALL_TALK,        SILENCE),
    ("priya",   "agreed",                                               UNSURE,              SILENCE),
    ("priya",   "summary for my manager please",                        Intent.SUMMARY,           ANSWER),
    ("priya",   "stop",                                                 Intent.STOP,              ANSWER),
    ("priya",   "approve",                                              Intent.TYPED_APPROVAL,    ANSWER),
    ("priya?",  "yes, do it",                                           Intent.TYPED_APPROVAL,    SILENCE),
    ("priya?",  "around two I think",                                   UNSURE,              SILENCE),
    ("priya?",  "what changed since 02:00?",                            Intent.CHANGED_SINCE,     ANSWER),
    ("priya?",  "we changed the cable at noon",                         Intent.NEW_FACTS,         ANSWER),
    # another person is addressed
    ("bot",     "@priya can you look at the cable?",                    UNSURE,              SILENCE),
    ("bot",     "<@U0PRIYA> what about gpu-002?",                       Intent.HOST_STATE,        SILENCE),
    ("bot",     "what do you think, @dmitri?",                          UNSURE,              SILENCE),
    ("bot",     "recheck gpu-002 would be nice @dmitri",                Intent.RECHECK,           SILENCE),
    ("bot",     "Priya, what about gpu-002?",                           Intent.HOST_STATE,        SILENCE),
    ("bot",     "hey dmitri is it safe to restart the job?",            Intent.SAFE_TO,           SILENCE),
    ("bot",     "anton do you remember who touched gpu-003 last week?", Intent.CHANGED_SINCE,     SILENCE),
    ("bot",     "ok sven could you show dmesg of gpu-003",              Intent.SHOW_OUTPUT,       SILENCE),
    ("bot",     "what do you see on gpu-003?",                          Intent.HOST_STATE,        ANSWER),
    ("bot",     "hwat can you see?",                                    Intent.META,              ANSWER),
    ("bot",     "thanks priya",                                         Intent.THANKS,            SILENCE),
    ("bot",     "anton, can you drain gpu-002?",                        Intent.WISH_REMEDY,       SILENCE),
    ("bot",     "<!here> anybody seen this before?",                    Intent.HAPPENED_BEFORE,   SILENCE),
    ("bot",     "<!subteam^S0GPUAPPR> please have a look",              UNSURE,              SILENCE),
    ("bot",     "assign it to @priya",                                  Intent.ASSIGN,            ANSWER),
    ("bot",     "hand off to <@U0ANTON>",                               Intent.HAND_OFF,          ANSWER),
    ("bot",     "@priya hand it off please",                            Intent.HAND_OFF,          SILENCE),
    ("bot",     "@priya assign it to @anton",                           Intent.ASSIGN,            SILENCE),
    ("bot?",    "@priya when did it last work?",                        UNSURE,              SILENCE),
    # the bot is addressed
    ("priya",   "@rackmedic what about gpu-002?",                       Intent.HOST_STATE,        ANSWER),
    ("priya",   "<@U0RACKMED> do the needful",                          UNSURE,              ANSWER),
    ("priya",   "rackmedic, who are you?",                              Intent.META,              ANSWER),
    ("priya",   "hey rackmedic what now",                               Intent.WHAT_NOW,          ANSWER),
    ("priya",   "@rackmedic tell @priya what you found",                Intent.SUMMARY,           ANSWER),
    ("priya",   "thanks @rackmedic!",                                   Intent.THANKS,            ANSWER),
    ("priya",   "@priya ask @rackmedic to recheck",                     Intent.RECHECK,           ANSWER),
    # our question was the last message
    ("bot?",    "last night around two, then we changed the image",     UNSURE,              TAKE),
    ("bot?",    "only on the new nodes",                                UNSURE,              TAKE),
    ("bot?",    "no",                                                   Intent.SMALL_TALK,        TAKE),
    ("bot?",    "yes",                                                  Intent.TYPED_APPROVAL,    TAKE),
    ("bot?",    "never",                                                UNSURE,              TAKE),
    ("bot?",    "yes, do it",                                           Intent.TYPED_APPROVAL,    ANSWER),
    ("bot?",    "since 02:40",                                          Intent.NEW_FACTS,         ANSWER),
    ("bot?",    "what do you mean?",                                    UNSURE,              SILENCE),
    ("bot?",    "let's discuss after lunch",                            UNSURE,              SILENCE),
    ("bot?",    "folks please stop touching these",                     UNSURE,              SILENCE),
    ("bot?",    "I'll attach the log in a minute",                      UNSURE,              SILENCE),
    ("bot?",    "🤷",                                                    UNSURE,              SILENCE),
    ("bot?",    "status",                                               Intent.STATUS,            ANSWER),
    ("bot?",    "@rackmedic yesterday evening",                         UNSURE,              TAKE),
    ("bot?",    "@rackmedic what do you mean?",                         UNSURE,              ANSWER),
    ("bot? me", "and gpu-7 was never part of it",                       UNSURE,              TAKE),
    ("priya",   "it was the second rack",                               UNSURE,              SILENCE),
    # commands that no rule parses, and questions after our message
    ("priya",   "drain everything except gpu-002 pls",                  UNSURE,              ANSWER),
    ("bot?",    "drain everything except gpu-002 pls",                  UNSURE,              ANSWER),
    ("bot? me", "pls reboot gpu-00{1..2} but not gpu-002",              UNSURE,              ANSWER),
    ("priya",   "ssh into 10.0.0.5 and check nvidia-smi",               UNSURE,              ANSWER),
    ("priya",   "please cordon all nodes but the first",                UNSURE,              ANSWER),
    ("priya",   "@anton drain everything except gpu-002 pls",           UNSURE,              SILENCE),
    ("bot",     "why does munge refuse it?",                            UNSURE,              ANSWER),
    ("bot?",    "which certificate is it?",                             UNSURE,              ANSWER),
    ("priya",   "check with the vendor please",                         UNSURE,              SILENCE),
    ("bot",     "ok swap it after lunch",                               UNSURE,              SILENCE),
    ("priya",   "replace whom?",                                        UNSURE,              SILENCE),
]
# fmt: on


ALONE = [
    ("bot", "what else could it be?", ANSWER),
    ("bot?", "what else could it be?", ANSWER),
    ("bot", "which one?", ANSWER),
    ("bot? me", "and then what?", ANSWER),
    ("bot", "which certificate?", ANSWER),
    ("bot", "gpu-001 asdkj askdj qwe", ANSWER),
    ("bot", "Sven, could you look?", SILENCE),
    ("bot", "please take it from here, Tom", SILENCE),
    ("bot", "Anna can you look?", SILENCE),
    ("bot", "let me get a coffee", UNCLEAR),
    ("bot", "hm", UNCLEAR),
    ("me", "it is loud in here", UNCLEAR),
    ("-", "that rack again", UNCLEAR),
]


@pytest.mark.parametrize(("before", "text", "becomes"), ALONE)
def test_one_person_alone_with_us_asks_us(before: str, text: str, becomes: Addressing) -> None:
    hosts = ("gpu-001",) if "gpu-001" in text else ()
    here = replace(BEFORE[before], called=find_call(text, US, SPEAKERS), alone=True)
    assert classify_addressing(ParsedMessage(text=text, sure=False, hosts=hosts), here) is becomes


@pytest.mark.parametrize(("before", "text", "intent", "becomes"), THREAD)
def test_what_is_said_to_us_is_heard_and_the_rest_is_none_of_our_business(
    before: str, text: str, intent: Intent, becomes: Addressing
) -> None:
    said = ParsedMessage(intent=intent, text=text, sure=intent is not UNSURE)
    here = replace(BEFORE[before], mentioned=is_mentioned(text, US), called=find_call(text, US, SPEAKERS))
    assert classify_addressing(said, here) is becomes


def test_the_table_of_dialogue_plays_every_rule_that_needs_no_setting() -> None:
    assert len(THREAD) >= 60
    situations = [
        (
            ParsedMessage(intent=intent, text=text, sure=intent is not UNSURE),
            replace(BEFORE[b], mentioned=is_mentioned(text, US), called=find_call(text, US, SPEAKERS)),
        )
        for b, text, intent, _ in THREAD
    ]
    played = {next(rule.why for rule in RULES if rule.holds(said, here)) for said, here in situations}
    assert {rule.why for rule in RULES} - played == {
        "something handed in",
        "only mentions here",
        "quiet, but for a stop",
        "closed, and no question of it",
        "nobody else is there",
    }


@pytest.mark.parametrize(
    ("text", "intent", "becomes"),
    [
        ("what about gpu-002?", Intent.HOST_STATE, SILENCE),
        ("stop", Intent.STOP, SILENCE),
        ("last night around two", UNSURE, SILENCE),
        ("@rackmedic what about gpu-002?", Intent.HOST_STATE, ANSWER),
        ("@rackmedic stop", Intent.STOP, ANSWER),
    ],
)
def test_where_only_mentions_count_even_our_own_question_waits_for_one(text: str, intent: Intent, becomes: Addressing) -> None:
    here = ThreadSituation(follows="us", asked=True, mention_only=True, mentioned=is_mentioned(text, US), called=find_call(text, US))
    assert classify_addressing(ParsedMessage(intent=intent, text=text, sure=intent is not UNSURE), here) is becomes


@pytest.mark.parametrize(
    ("text", "intent", "becomes"),
    [
        ("what about gpu-002?", Intent.HOST_STATE, SILENCE),
        ("gpu-004 throws Xid 79 now", Intent.NEW_FACTS, SILENCE),
        ("hand off", Intent.HAND_OFF, ANSWER),
        ("stop", Intent.STOP, ANSWER),
        ("you can talk again", Intent.PAUSE, ANSWER),
        ("@rackmedic what about gpu-002?", Intent.HOST_STATE, ANSWER),
    ],
)
def test_during_a_pause_only_mentions_stop_and_hand_off_count(text: str, intent: Intent, becomes: Addressing) -> None:
    assert (
        classify_addressing(
            ParsedMessage(intent=intent, text=text), ThreadSituation(follows="us", paused=True, mentioned=is_mentioned(text, US))
        )
        is becomes
    )


@pytest.mark.parametrize(
    ("text", "intent", "becomes"),
    [
        ("still broken", Intent.STILL_BROKEN, ANSWER),
        ("reopen please", Intent.REOPEN, ANSWER),
        ("summary for a ticket", Intent.SUMMARY, ANSWER),
        ("status", Intent.STATUS, ANSWER),
        ("why?", Intent.EXPLAIN, ANSWER),
        ("thanks all", Intent.THANKS, ANSWER),
        ("no, it was the cable", Intent.CORRECT, ANSWER),
        ("we replaced the cable yesterday", Intent.NEW_FACTS, SILENCE),
        ("close it", Intent.CLOSE, SILENCE),
        ("the postmortem is on friday", UNSURE, SILENCE),
        ("@rackmedic Xid 79 again on gpu-004", Intent.NEW_FACTS, ANSWER),
        ("@rackmedic hmm", UNSURE, ANSWER),
    ],
)
def test_a_closed_incident_answers_questions_and_hears_who_opens_it_again(text: str, intent: Intent, becomes: Addressing) -> None:
    here = ThreadSituation(follows="us", closed=True, mentioned=is_mentioned(text, US))
    assert classify_addressing(ParsedMessage(intent=intent, text=text, sure=intent is not UNSURE), here) is becomes


@pytest.mark.parametrize(
    ("text", "intent", "becomes"),
    [
        ("here you go", UNSURE, TAKE),
        ("", UNSURE, TAKE),
        ("what about gpu-002?", Intent.HOST_STATE, ANSWER),
        ("@priya the picture of the lunch menu", UNSURE, SILENCE),
    ],
)
def test_a_file_is_new_evidence_unless_addressed_to_another_person(text: str, intent: Intent, becomes: Addressing) -> None:
    here = ThreadSituation(follows="person", files=True, called=find_call(text, US, SPEAKERS))
    assert classify_addressing(ParsedMessage(intent=intent, text=text, sure=intent is not UNSURE), here) is becomes


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("recheck gpu-002", ""),
        ("@rackmedic recheck", ""),
        ("<@U0RACKMED|rackmedic> recheck", ""),
        ("rackmedic, can you recheck?", ""),
        ("mail root@gpu-002 says hello", ""),
        ("ok, what about gpu-002?", ""),
        ("dmesg, please", ""),
        ("Xid 79, again, can you see it?", ""),
        ("Driver: 535 to 550", ""),
        ("@priya look", "first"),
        ("hey @priya look", "first"),
        ("please ask @priya", "inside"),
        ("(cc <@U0PRIYA>)", "inside"),
        ("<!channel> look", "first"),
        ("PRIYA look", "first"),
        ("so, dmitri, any idea?", "first"),
        ("anton, did you change the cable?", "first"),
        ("", ""),
    ],
)
def test_who_is_called_is_read_from_mentions_and_from_how_it_begins(text: str, who: str) -> None:
    assert find_call(text, US, SPEAKERS) == who


def test_the_answer_to_our_question_is_new_facts() -> None:
    said = mark_as_new_facts(ParsedMessage(text="only on the new nodes", sure=False, suggestions=(Intent.HOST_STATE, Intent.HELP)))
    assert (said.intent, said.kind, said.sure, said.suggestions) == (Intent.NEW_FACTS, "reply", True, ())


def test_the_longest_message_is_read_for_whom_it_is_said_to_in_no_time() -> None:
    text = "@" * 100_000 + "<!" * 100_000 + "yes " * 100_000
    assert (find_call(text, US, SPEAKERS), is_mentioned(text, US), is_yes_or_no(text), can_answer(text)) == ("", False, False, False)
