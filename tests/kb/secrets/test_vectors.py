"""The share of secrets that redaction removes, by kind of source; known misses are listed."""

import re

import pytest

from kb.redact import redact
from kb.secrets.spread import REDACTED
from kb.secrets.tokens import TOKEN_FORMS
from tests.kb.secrets.vectors import Vector, vectors

LEAST = {"tuned": 1.0, "held_out": 0.97, "scanners": 0.97, "second_hand": 1.0}
MISSED = ("sidekiq",)  # service tokens without a prefix that distinguishes them from words; listed in docs/assurance.md
LEAST_KINDS = LEAST_HARMLESS = 100


@pytest.mark.parametrize("name", LEAST)
def test_secrets_are_found(name: str) -> None:
    every = list(vectors(name))
    missed = [one for one in every if one.left(redact(one.text))]
    assert 1 - len(missed) / len(every) >= LEAST[name], [one.text for one in missed]


def test_only_the_tokens_that_are_named_are_missed() -> None:
    missed = [one.text for one in vectors("scanners") if one.left(redact(one.text))]
    assert sorted(text.split()[0] for text in missed) == list(MISSED)


def test_there_are_enough_of_every_source() -> None:
    own = [one for name in ("tuned", "held_out") for one in vectors(name)]
    assert len(own) >= 200
    assert {one.source for one in own} == {"ps", "env", "docker", "journal", "ticket", "attachment"}


@pytest.mark.parametrize("one", list(vectors("kinds")), ids=lambda one: one.text[:40])
def test_a_secret_of_each_kind_is_found(one: Vector) -> None:
    clean = redact(one.text)
    assert one.secrets
    assert not one.left(clean), clean


@pytest.mark.parametrize("one", list(vectors("harmless")), ids=lambda one: one.text[:40])
def test_what_diagnosis_needs_is_not_touched(one: Vector) -> None:
    assert redact(one.text) == one.text


def test_there_are_enough_kinds_and_enough_that_is_no_secret() -> None:
    assert len(list(vectors("kinds"))) >= LEAST_KINDS
    assert len(list(vectors("harmless"))) >= LEAST_HARMLESS


@pytest.mark.parametrize("one", [one for name in (*LEAST, "kinds") for one in vectors(name)], ids=lambda one: one.text[:30])
def test_taking_it_out_twice_changes_nothing(one: Vector) -> None:
    assert redact(redact(one.text)) == redact(one.text)


def test_a_line_in_another_alphabet_keeps_all_but_its_secret() -> None:
    assert redact("мой пароль: hunter22, спасибо") == "мой пароль: [redacted], спасибо"
    assert redact("\x1b[31mERROR\x1b[0m on gpu-017 \x1b[1mpassword\x1b[0m=hunter22 seen") == (
        "\x1b[31mERROR\x1b[0m on gpu-017 \x1b[1mpassword\x1b[0m=[redacted] seen"
    )


def test_what_follows_a_key_behind_a_prefix_stays() -> None:
    dash = "-" * 5
    text = f"app[1]: {dash}BEGIN PRIVATE KEY{dash}\napp[1]: {'Ab1/' * 16}\nkernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    assert redact(text).split("\n")[1:] == ["app[1]: [redacted]", "kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", ""]


@pytest.mark.parametrize(
    "text",
    [
        "| token | gpu-017 |", "curl -sSu https://site/x", "<token id='a1'/>gpu017<", "credentials:\n  path: /etc/a1b2c3", "tokens:\n  rate: 123456tok/s",
        "7z x a.7z", "unzip -p a.zip", "passwords,users1x,field2", "process identified by 'gpu-017'", "echo 50%22 100%3d", "tokens:\n  p50: 123456us",
        "::: gpu-017:0:1:2:", "cache key-0123456789abcdef0123456789abcdef", "all pass -> gpu-0017", "creds: expired on gpu-017", "|htpasswd|private|a1|",
        "token          : 17", "snmpwalk -v2c -c public pdu-3",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redact(text) == text


# characters that may stand directly before a token
BESIDE = ("", "=", ":", "/", "'", '"', "(", ",", ";", "@", ".", "-", "|", ">", "x=", "0:")


@pytest.mark.parametrize("form", [pytest.param(form, id=needles[0]) for needles, form in TOKEN_FORMS])
def test_a_token_that_tells_itself_is_found_behind_any_sign(form: re.Pattern[str]) -> None:
    """Needles are searched only at word starts, so that a hundred cost little; none may be missed."""
    texts = [one.text for name in LEAST for one in vectors(name)]
    found = [text[found.start() - 24 if found.start() > 24 else 0 : found.end()] for text in texts for found in form.finditer(text)]
    for text in dict.fromkeys(found):
        for sign in BESIDE:
            said = f"{sign}{text}"
            assert not any(form.search(line) and not form.search(REDACTED) for line in redact(said).split("\n") if form.search(said)), said
