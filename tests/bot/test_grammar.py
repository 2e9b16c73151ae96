"""Every phrase that the help card offers is understood; everything else is kept whole as new facts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.slack.incoming.grammar import ANYTHING, PHRASES, help_rows, people_see, read_reply


@pytest.mark.parametrize(
    ("raw", "kind", "data"),
    [
        ("help", "help", {}),
        ("<@U0RACKMED> help", "help", {}),
        ("Status?", "status", {}),
        ("why", "why", {}),
        ("why?", "why", {}),
        ("why GPU.FELL_OFF.Xid_79", "why", {"label": "GPU.FELL_OFF.Xid_79"}),
        ("why not `INTERCONNECT.LINK.Down`?", "why", {"label": "INTERCONNECT.LINK.Down"}),
        ("why ABSTAIN", "why", {"label": "ABSTAIN"}),
        ("recheck", "recheck", {}),
        ("please recheck gpu-[017-018], n3", "recheck", {"hosts": "gpu-[017-018], n3"}),
        ("STOP!", "stop", {}),
        ("hand off", "hand_off", {}),
        ("handoff please", "hand_off", {}),
        ("hand it over", "hand_off", {}),
        ("hosts gpu-[017-020]", "reply", {"hosts": "gpu-[017-020]"}),
        ("host: `login`", "reply", {"hosts": "login"}),
        ("job 4711", "reply", {"job": "4711"}),
        ("since 02:40 UTC", "reply", {"since": "02:40 UTC"}),
    ],
)
def test_a_phrase_is_understood(raw: str, kind: str, data: dict[str, str]) -> None:
    said = read_reply(raw)
    assert (said.kind, dict(said.data)) == (kind, data)


@pytest.mark.parametrize(
    "raw",
    [
        "it does not stop, the log says: stop",
        "why is it slow since the driver update",
        "recheck the cables were reseated on the left side",
        "stop\nstart 4711 again",
        "job 4711 died on gpu-017",
        "status: FAILED\nrank 3 aborted",
        "",
    ],
)
def test_a_sentence_with_a_command_in_it_is_new_facts(raw: str) -> None:
    said = read_reply(raw)
    assert (said.kind, said.text, dict(said.data)) == ("reply", raw, {})


@given(st.text(max_size=300))
def test_any_text_is_read_as_something(raw: str) -> None:
    assert read_reply(raw).kind in {phrase.kind for phrase in PHRASES}


def test_text_is_read_as_people_see_it() -> None:
    raw = "<@U1|olga> see <http://gpu-017.example|gpu-017.example> in <#C1|ops> <!here> a &lt;b&gt; &amp;lt; <mailto:a@b.example>"
    assert people_see(raw) == "@olga see gpu-017.example in #ops @here a <b> &lt; a@b.example"


def test_help_lists_every_phrase_and_that_anything_else_is_facts() -> None:
    assert help_rows() == [*((phrase.form, phrase.means) for phrase in PHRASES), ANYTHING]


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.form)
def test_the_form_that_help_shows_is_read_as_that_phrase(phrase: object) -> None:
    assert phrase in PHRASES
    row = PHRASES[PHRASES.index(phrase)]
    words = (
        row.form.replace("[LABEL]", "GPU.A.B")
        .replace("[HOSTS]", "gpu-1")
        .replace("RANGE", "gpu-[1-2]")
        .replace("ID", "4711")
        .replace("TIME", "02:40")
    )
    assert read_reply(words).kind == row.kind
