"""Slack accepts every tenant card with right-to-left, very long, emoji and empty names and 128 hosts; names are never
markup.
"""

import json
from collections.abc import Mapping
from typing import get_args

import pytest
from slack_sdk.models.blocks import Block as SlackBlock

from bot.cards.blocks import Block, Card
from bot.cards.text import ISOLATE_END, ISOLATE_START, isolate_rtl_words, render_line
from bot.tenants.cards import answers, internal_thread, quota_waiting, tenant_card
from bot.tenants.cards.view import TenantCause, TenantStage, TenantState, TenantView
from deploy.sandbox.slack.workspace.blockkit import exceeds_text_limit, find_problems, find_view_problems
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0

pytestmark = pytest.mark.slow


WORDS = load_customer_words(load_taxonomy())
IFNAME, FALLEN = "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong", "GPU.BUS.Fallen_Off_Bus"
HEBREW, ARABIC = "שרת-אימון-01", "خادم-٣"
NAMES: Mapping[str, str] = {
    "nothing": "",
    "usual": "train-01",
    "hostile": "<!channel> \u202eevil\u2066 ``` *bold* _it_ &amp; <@U0EVIL> :fire: <https://evil.example|x> @here",
    "long": "h" * 253,
    "emoji": "🔥👩‍👩‍👧" * 60,
    "hebrew": HEBREW,
    "arabic": ARABIC,
    "both ways": f"{HEBREW} and {ARABIC} ({HEBREW})",
}


def views(name: str, hosts: int, language: str) -> list[TenantView]:
    """Return every stage and state, with this name in every field."""
    named = tuple(f"{name}{n:03}" for n in range(hosts))
    causes = (
        TenantCause(WORDS.get_cause_words(FALLEN, language), True, named),
        TenantCause(WORDS.get_cause_words(IFNAME, language), False, named, (name, name * 3), f"export X={name}"),
    )
    asks = ("q_which", "q_log", "q_since")
    return [
        TenantView(
            "inc-1", stage, state, causes, named, asks, named, name, named, named, language, back % 2 > 0, back % 2 < 1, back % 3 < 1
        )
        for back, (stage, state) in enumerate(
            [*((one, "") for one in get_args(TenantStage)), *(("people", one) for one in get_args(TenantState))]
        )
    ]


def cards(name: str, hosts: int, language: str) -> dict[str, Card]:
    told: dict[str, Card] = {
        "root": internal_thread.render_root_message("inc-1", name, "C0ACME", name * 20, [name] * 12),
        "quoted": internal_thread.render_tenant_message(name, name * 20, [name]),
        "noted": internal_thread.render_note(name or "–"),
        "as they see": internal_thread.render_visibility_note(name, "C0OPS"),
        "told": internal_thread.render_sent_message(name, name or "–", fetched=True),
        "from people": tenant_card.render_operator_message(name or "–", language),
    }
    for number, view in enumerate(views(name, hosts, language)):
        told[f"living {number}"], told[f"moved {number}"] = tenant_card.render_tenant_card(view), tenant_card.render_update(view)
        told[f"why {number}"], told[f"asked {number}"] = (
            tenant_card.render_explanation(view, include_duration=True),
            tenant_card.render_progress_answer(view, name or "–"),
        )
    for kind in get_args(answers.AnswerKind):
        told[kind] = answers.render_answer(kind, view, view.hosts[:3], view.hosts)
    return told


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize(("hosts", "language"), [(0, "en"), (1, "de"), (128, "en")])
def test_every_card_is_one_that_slack_takes(name: str, hosts: int, language: str) -> None:
    for what, card in cards(name, hosts, language).items():
        listed = list(card.blocks)
        assert not find_problems(listed, "message"), what
        assert not exceeds_text_limit(listed), what
        assert all(SlackBlock.parse(block) for block in listed), what
        quiet(listed, what)
        quiet([{"text": card.text}], what)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_the_form_and_the_line_of_those_who_wait_are_too(name: str) -> None:
    form = internal_thread.render_tell_form("inc-1", name, name * 20)
    assert not find_view_problems(form)
    row = quota_waiting.WaitingTenantView(name, 128, "inc-1", T0, "mentions", T0, name * 20)
    listed = quota_waiting.render_waiting_tenants([row] * 7)
    assert not find_problems(listed, "home")
    quiet(listed, name)


def quiet(listed: list[Block], what: str) -> None:
    """Assert that no mention, link or unpaired direction mark is in the blocks."""
    said = json.dumps(listed, ensure_ascii=False)
    for loud in ("<!channel>", "<@U0EVIL>", "<https://evil", "<!here>", "\u202e", "\u2066"):
        assert loud not in said, (what, loud)
    assert said.count(ISOLATE_START) == said.count(ISOLATE_END), what


@pytest.mark.parametrize("name", [HEBREW, ARABIC])
def test_a_name_from_right_to_left_stands_apart_in_its_sentence(name: str) -> None:
    view = TenantView("inc-1", "asked", unknown_hosts=(name,))
    for card in (tenant_card.render_tenant_card(view), answers.render_answer("machines", view, (), (name,))):
        assert f"{ISOLATE_START}{name}{ISOLATE_END}." in json.dumps(card.blocks, ensure_ascii=False), card
    assert ISOLATE_START in json.dumps(internal_thread.render_tenant_message(name, "hangs", []).blocks, ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("gpu-017 hangs.", "gpu-017 hangs."),
        (f"see {HEBREW}.", f"see {ISOLATE_START}{HEBREW}{ISOLATE_END}."),
        (f"“{HEBREW}”, then", f"“{ISOLATE_START}{HEBREW}{ISOLATE_END}”, then"),
        (f"{HEBREW} {ARABIC} and gpu-1", f"{ISOLATE_START}{HEBREW} {ARABIC}{ISOLATE_END} and gpu-1"),
    ],
)
def test_what_is_set_apart_is_the_name_alone(text: str, apart: str) -> None:
    assert isolate_rtl_words(text) == apart


def test_a_line_that_is_cut_stays_whole_and_within_its_limit() -> None:
    for limit in range(40, 120):
        shown = render_line((HEBREW * 30, "tail"), limit)
        assert len(shown) <= limit
        assert shown.count(ISOLATE_START) == shown.count(ISOLATE_END)
