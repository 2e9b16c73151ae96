"""Slack's models and our limits accept every card and dialog with the longest and the emptiest content."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from slack_sdk.models.blocks import Block as SlackBlock
from slack_sdk.models.views import View

from bot.cards.blocks import Card
from bot.incidents.cards import details, diagnosis, handoff_card, progress, questions
from bot.incidents.cards.handoff_content import build_handoff
from bot.incidents.cards.progress import ProgressCard
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import modals, outcomes, shared_card
from bot.remediation.cards.approval_card import ApprovalCardView
from deploy.sandbox.slack.workspace.blockkit import exceeds_text_limit, find_problems, find_view_problems
from graph.incident_view import IncidentView
from graph.report import Report, UnprovenCause
from graph.state import Conjecture, Evidence, Hypothesis, IncidentCosts, IncidentState, UnobservedCheck
from tests.bot.remediation.cards.test_approval_cards import GROUP, record_of
from tools.execution.conditions import ConditionResult
from tools.ledger.brakes import Brakes
from tools.ledger.record import ActionRecord

NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
HOSTILE = "<!channel> \u202eevil\u2066 🔥🔥 ``` *bold* &amp; <@U0EVIL> https://evil.example"
LONG = "h" * 240

# the text in every field of a card
TEXTS: Mapping[str, str] = {
    "nothing": "",
    "hostile": HOSTILE,
    "long": "x" * 4000,
    "emoji": "🔥" * 2000,
    "longest host": LONG,
    "right to left": "שרת-אימון-01 في الرف ٣",
    "usual": "gpu-017",
}


def idea_of(text: str) -> Conjecture:
    """Return an idea as long as its bounds allow (`graph.model.answer_values`)."""
    return Conjecture(
        title=text[:80],
        cause=text[:240],
        rests=(text[:160],) * 7,
        confirms=text[:160],
        refutes=text[:160],
        looks=(text[:200],) * 4,
        suggestions=(text[:160],) * 2,
        doubt=text[:240],
    )


def report_of(text: str, hosts: int, lines: int) -> Report:
    names = tuple(f"{text[:200]}{n}" for n in range(hosts))
    cited = tuple(
        Evidence(host=names[0] if names else "", check="dmesg", line=text, says=text, time=NOW, sha256="ab" * 32) for _ in range(lines)
    )
    causes = tuple(
        Hypothesis(label=f"GPU.X.Leaf_{n}", hosts=names, because=text, confidence=0.9, evidence=cited) for n in range(min(hosts, 4))
    )
    return Report(
        item="x",
        outcome="diagnosed" if causes else "abstained",
        headline=text,
        root_causes=causes,
        ruled_out=causes,
        could_not_look=tuple(UnobservedCheck(host=name, check="smi", why=text) for name in names),
        questions=(text,) * min(hosts, 9),
        suggestions=(text,) * min(hosts, 9),
        likely=None if causes else UnprovenCause(label="GPU.BUS.Lost", p=0.7, by="reading", because=text[:160]),
        outside="" if causes else text[:240],
        ideas=(idea_of(text),) * min(hosts, 3),
        doubts=(text[:400],) * min(hosts, 2),
        next_step=text,
        by_hand=(text,) * min(hosts, 9),
    )


def state_of(report: Report) -> IncidentState:
    return {"id": "i1", "report": report.model_dump(mode="json"), "brief": {"text": report.headline}, "ticket": {"state": "open"}}


def records_of(text: str, hosts: int) -> list[ActionRecord]:
    command = ("sh", "-c", text) if text else ("true",)
    return [record_of(target=f"gpu-{n:03}", via=f"gpu-{n:03}", devices=(), command=command, approval=f"apr-{n:012x}") for n in range(hosts)]


def cards_of(text: str, hosts: int, lines: int) -> dict[str, Card]:
    report, records = report_of(text, hosts, lines), records_of(text, max(1, hosts))
    seen = [ConditionResult(text, ok, text) for ok in (True, False, None)]
    shown = ApprovalCardView(records[0], GROUP, condition_results=seen, seen_at=NOW, tail=[text] * lines, warning=text)
    return {
        "diagnosis": diagnosis.render_diagnosis("i1", report, IncidentCosts(hosts=hosts, checks=9)),
        "answer": diagnosis.render_diagnosis("i1", report.model_copy(update={"reply": text or "–"})),
        "progress": progress.render_progress(ProgressCard("i1", "execute", text, text, 3, 9, (text,) * 9)),
        "question": questions.render_question_card(report.questions, report.suggestions),
        "ticket": handoff_card.render_ticket(build_handoff(state_of(report))),
        "approval": approval.render_approval_card(shown),
        "outcome": outcomes.render_outcome(shown),
        "reminder": outcomes.render_reminder(shown),
        "several": shared_card.render_shared_card(
            [ApprovalCardView(record, GROUP) for record in records_of(text[:100], 4)], Brakes()
        ),  # a longer one gets its own card
    }


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(("hosts", "lines"), [(0, 0), (1, 1), (3, 200), (60, 8)])
def test_every_card_is_one_that_slack_takes(text: str, hosts: int, lines: int) -> None:
    for name, card in cards_of(text, hosts, lines).items():
        listed = list(card.blocks)
        assert not find_problems(listed, "message"), name
        assert not exceeds_text_limit(listed), name
        parsed = [SlackBlock.parse(block) for block in listed]
        assert all(parsed), name
        for block in parsed:
            assert block is not None
            assert block.to_dict(), name
        assert "<!channel>" not in str(listed), name
        assert "<@U0EVIL>" not in str(listed), name


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize(("hosts", "lines"), [(0, 0), (3, 200), (60, 8)])
def test_every_dialog_is_one_that_slack_takes(text: str, hosts: int, lines: int) -> None:
    views = [
        details.render_details(IncidentView(state_of(report_of(text, hosts, lines))), {}, {}, "x"),
        modals.render_all_actions(records_of(text, max(1, hosts))[:20]),
    ]
    for view in views:
        assert not find_view_problems(view)
        assert View(**view).to_dict()["blocks"]
        assert "<!channel>" not in str(view["blocks"])
