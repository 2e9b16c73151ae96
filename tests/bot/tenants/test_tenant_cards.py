"""Tenant cards contain only what a tenant may see, in every language, within Slack's limits."""

import json
import string
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from bot.tenants.cards import internal_thread, quota_waiting, tenant_card
from bot.tenants.cards.answers import ANSWER_BY_INTENT, AnswerKind, render_answer
from bot.tenants.cards.driver_versions import add_driver_versions
from bot.tenants.cards.phrases import PHRASES, get_phrase
from bot.tenants.cards.quota_waiting import WaitingTenantView
from bot.tenants.cards.view import (
    TenantCause,
    TenantStage,
    TenantState,
    TenantView,
    TenantViewContext,
    build_tenant_view,
    get_no_slot_values,
)
from graph.dialogue.intents import Intent
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import (
    SIDE_KEY,
    TENANT_SIDE,
    Attachment,
    Evidence,
    FileSource,
    HandoffTicket,
    Hypothesis,
    InboxItem,
    IncidentState,
    Remediation,
)
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tools.fact import Fact
from tools.inventory.host_ranges import expand_host_range

pytestmark = pytest.mark.slow


WORDS = load_customer_words(load_taxonomy())
LANGUAGES = WORDS.languages
OWN = ("gpu-003", "gpu-004")
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
IFNAME, FALLEN, SWITCH = "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong", "GPU.BUS.Fallen_Off_Bus", "INTERCONNECT.SWITCH.Leaf_Degraded"
SECRETS = ("globex", "gpu-001", "leaf-7", "scontrol", "priya", "0.99", "U0PRIYA", "Reason=", "because of the inside")


def stored(
    *causes: Hypothesis, ladders: Sequence[Remediation] = (), ticket: HandoffTicket | None = None, lifecycle: str = "open", **report: Any
) -> IncidentView:
    """Return an incident after a turn, with much internal content."""
    told = Report(item="i", outcome="diagnosed" if causes else "no_fault", headline="leaf-7 at priya", root_causes=causes, **report)
    state: dict[str, Any] = {
        "id": "inc-aaaaaa",
        "report": told.model_dump(mode="json"),
        "lifecycle": lifecycle,
        "ladders": [row.model_dump(mode="json") for row in ladders],
        "said": [{"user": "U0PRIYA", "text": "globex has it too", "at": NOW.isoformat()}],
        **({"ticket": ticket.model_dump(mode="json")} if ticket else {}),
    }
    return IncidentView(IncidentState(**state))  # type: ignore[typeddict-item]  # as read from the store


def cause(label: str, *hosts: str, evidence: Sequence[Evidence] = ()) -> Hypothesis:
    return Hypothesis(
        label=label, hosts=hosts, confidence=0.99, verdict="confirmed", because="because of the inside", evidence=tuple(evidence)
    )


def view_of(rows: IncidentView, language: str = "en", **more: Any) -> TenantView:
    return build_tenant_view(rows, TenantViewContext(OWN, WORDS, language), **more)


def text_of(view: TenantView) -> str:
    card = tenant_card.render_tenant_card(view)
    return json.dumps([card.text, card.blocks], ensure_ascii=False)


def test_every_phrase_stands_in_every_language_with_the_same_slots() -> None:
    for id_, row in PHRASES.items():
        assert set(row) == set(LANGUAGES), id_
        slots = {language: {name for _, name, _, _ in string.Formatter().parse(words) if name} for language, words in row.items()}
        assert len(set(map(frozenset, slots.values()))) == 1, id_


def test_every_stage_and_state_has_its_phrase_and_its_mark() -> None:
    for stage in get_args(TenantStage):
        assert get_phrase(stage)
        assert tenant_card.STAGE_MARKS[stage]
    for state in filter(None, get_args(TenantState)):
        assert get_phrase(f"state_{state}")


def test_a_customers_mistake_is_answered_with_their_line_the_change_and_how_to_see_it() -> None:
    seen = [
        Evidence(host="gpu-003", check="jobenv", key="env.NCCL_SOCKET_IFNAME", line="NCCL_SOCKET_IFNAME=docker0"),
        Evidence(host="gpu-003", check="sched", key="sched.reason", line="Reason=globex scontrol"),
        Evidence(host="gpu-001", check="joblog", key="job.error", line="globex: connection refused"),
    ]
    view = view_of(stored(cause(IFNAME, "gpu-003", "gpu-001", evidence=seen)))
    assert (view.stage, view.state) == ("yours", "")
    said = text_of(view)
    assert "NCCL_SOCKET_IFNAME=docker0" in said
    assert "unset NCCL_SOCKET_IFNAME" in said
    assert "It worked when" in said
    assert "--exclude" not in said
    assert not [word for word in SECRETS if word in said]


def test_a_fault_of_ours_names_their_node_and_the_line_to_start_without_it_and_nothing_else() -> None:
    seen = [Evidence(host="gpu-003", check="dmesg", key="kernel.xid", line="Xid 79 on leaf-7 priya")]
    view = view_of(stored(cause(FALLEN, "gpu-003", "gpu-001", evidence=seen)))
    said = text_of(view)
    assert (view.stage, view.state) == ("ours", "received")
    assert "--exclude=gpu-003" in said
    assert "Xid" not in said
    assert not [word for word in SECRETS if word in said]


@pytest.mark.parametrize("hosts", [2, 300, 999, 1500])
def test_the_line_to_start_again_with_is_never_cut(hosts: int) -> None:
    ours = (TenantCause(WORDS.get_cause_words(FALLEN, "en"), True, ("gpu-0000",)),)
    avoid = tuple(f"gpu-{2 * n:04d}" for n in range(hosts))
    card = tenant_card.render_tenant_card(TenantView("inc-aaaaaa", "ours", "received", ours, avoid))
    monospace = [text[4:-4] for block in card.blocks if (text := block.get("text", {}).get("text", "")).startswith("```")]
    line = "".join(row.removesuffix("\\") for row in monospace)
    assert tuple(expand_host_range(line.removeprefix("--exclude="))) == avoid
    assert "…" not in line


def test_more_machines_than_a_line_takes_are_counted_and_no_part_of_them_is_pasted() -> None:
    ours = (TenantCause(WORDS.get_cause_words(FALLEN, "en"), True, ("a",)),)
    avoid = tuple(f"gpu-{2 * n:04d}" for n in range(4000))
    said = text_of(TenantView("inc-aaaaaa", "ours", "received", ours, avoid))
    assert "--exclude" not in said
    assert "4000 of your machines" in said


@pytest.mark.parametrize(("found", "told"), [("nothing", True), ("odd", False), ("blind", False)])
def test_what_was_asked_comes_before_a_fault_elsewhere(found: str, told: bool) -> None:
    about = {"hosts": ("gpu-003", "gpu-001"), "found": found, "checks": 9}
    said = text_of(view_of(stored(cause(FALLEN, "gpu-004"), about=about)))
    assert ("Nothing wrong found so far with gpu-003." in said) is told
    assert not [word for word in SECRETS if word in said]
    if told:
        assert said.index("found so far with gpu-003") < said.index("--exclude=gpu-004")


def test_a_cause_above_the_nodes_names_no_place() -> None:
    said = text_of(view_of(stored(cause(SWITCH, "leaf-7", "gpu-001"))))
    assert "network team" in said
    assert not [word for word in SECRETS if word in said]


def ladder(**more: Any) -> Remediation:
    return Remediation(id="l", label=FALLEN, target="gpu-003", approval="apr-1", **more)


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        (stored(cause(FALLEN, "gpu-003"), ladders=[ladder()]), "received"),
        (stored(cause(FALLEN, "gpu-003"), ladders=[ladder()], ticket=HandoffTicket(state="taken", taken_by="U0PRIYA")), "taken"),
        (stored(cause(FALLEN, "gpu-003"), ticket=HandoffTicket(state="waiting", taken_by="U0PRIYA")), "waiting"),
        (stored(cause(FALLEN, "gpu-003"), ladders=[ladder(drained=True)]), "repairing"),
        (stored(cause(FALLEN, "gpu-003"), ladders=[ladder(waiting_for="proof")], lifecycle="watching"), "proved"),
        (stored(ladders=[ladder(outcome="cured")], lifecycle="watching"), "proved"),
        (stored(cause(FALLEN, "gpu-003"), ladders=[ladder(outcome="cured")], lifecycle="closed"), "closed"),
    ],
)
def test_our_side_is_told_by_how_far_it_is(rows: IncidentView, state: str) -> None:
    assert view_of(rows).state == state


def test_an_approved_action_is_a_repair() -> None:
    assert view_of(stored(cause(FALLEN, "gpu-003"), ladders=[ladder()]), begun={"apr-1"}).state == "repairing"


def test_at_most_three_questions_are_asked_and_no_other_tenant_is_named() -> None:
    view = view_of(stored(questions=("When can gpu-001 be without jobs?", "Did leaf-7 show it before?", "Which?", "What else?")))
    assert view.stage == "asked"
    assert view.questions == ("q_which", "q_log", "q_since")
    said = text_of(view)
    assert get_phrase("q_log") in said
    assert not [word for word in SECRETS if word in said]


def test_another_tenants_host_reads_like_an_unknown_one() -> None:
    view = TenantView("inc-aaaaaa", "healthy", unknown_hosts=("gpu-001", "gpu-999"))
    assert get_phrase("unknown_hosts", names="gpu-001, gpu-999") in text_of(view)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", get_args(TenantState))
@pytest.mark.parametrize("stage", get_args(TenantStage))
def test_every_card_fits_at_its_extreme(stage: TenantStage, state: TenantState, language: str) -> None:
    said = WORDS.get_cause_words(IFNAME, language)
    hosts = tuple(f"gpu-{n:03d}" for n in range(0, 999, 2))
    many = tuple(TenantCause(said, ours, hosts, ("x" * 5000, "`*_<!channel>" * 50), "y\n" * 8) for ours in (True, False, True))
    view = TenantView("inc-aaaaaa", stage, state, many, hosts, ("q_which", "q_log", "q_since"), hosts, "9" * 400, hosts, hosts, language)
    asked = [render_answer(kind, view, hosts, hosts) for kind in get_args(AnswerKind)]
    for card in (tenant_card.render_tenant_card(view), tenant_card.render_progress_answer(view), *asked):
        assert len(card.blocks) <= 50
        assert all(len(block["text"]["text"]) <= 3000 for block in card.blocks if block["type"] == "section" and "text" in block)
        assert "<!channel>" not in json.dumps(card.blocks)


def test_a_button_carries_its_incident_and_is_read_back() -> None:
    buttons = [
        element
        for block in tenant_card.render_tenant_card(view_of(stored())).blocks
        if block["type"] == "actions"
        for element in block["elements"]
    ]
    for button in buttons:
        pressed = tenant_card.parse_tenant_click({"actions": [{"action_id": button["action_id"], "value": button["value"]}]})
        assert pressed.incident == "inc-aaaaaa"
    assert {button["action_id"] for button in buttons} <= set(tenant_card.BUTTONS)


def test_a_tenants_text_is_quoted_without_mentions() -> None:
    words = "<!channel> *bold* <@U0PRIYA> ```code``` " + "long " * 1000
    for card in (
        internal_thread.render_root_message("inc-aaaaaa", "acme", "C0ACME", words, ["a*b.log"]),
        internal_thread.render_tenant_message("acme", words, []),
    ):
        said = json.dumps(card.blocks)
        assert "<!channel>" not in said
        assert "<@U0PRIYA>" not in said
        assert all(len(block.get("text", {}).get("text", "")) <= 3000 for block in card.blocks)


def test_a_customer_reads_the_names_that_they_gave_their_hosts() -> None:
    silent = [{"host": "gpu-004", "check": "all", "why": "no answer"}]
    rows = stored(cause(FALLEN, "gpu-003", "gpu-001"), could_not_look=silent)
    view = build_tenant_view(rows, TenantViewContext(OWN, WORDS, names={"gpu-003": "train-01", "gpu-004": "train-02"}))
    assert (view.causes[0].hosts, view.avoid, view.silent) == (("train-01",), ("train-01",), ("train-02",))
    assert "--exclude=train-01" in text_of(view)
    assert "gpu-0" not in text_of(view)


def test_a_line_of_their_job_names_their_hosts_as_they_do() -> None:
    line, source = "[gpu-003:12] gpu-0031 gpu-004.local: refused by gpu-003-ib0", FileSource(uid=3001, job="812", nodes="gpu-[003-004]")
    seen = [Evidence(host="gpu-003", check="joblog", key="job.error", line=line, source=source)]
    rows = stored(cause(IFNAME, "gpu-003", evidence=seen))
    view = build_tenant_view(rows, TenantViewContext(OWN, WORDS, names={"gpu-003": "train-01", "gpu-004": "train-02"}))
    assert view.causes[0].shows == ("[train-01:12] gpu-0031 train-02.local: refused by gpu-003-ib0",)


@pytest.mark.parametrize("why", ["binary", "too_large", "refused", "too_long"])
@pytest.mark.parametrize("side", [TENANT_SIDE, ""])
def test_a_file_of_theirs_that_was_not_read_is_said_and_one_of_ours_is_not(why: str, side: str) -> None:
    given = Attachment(name="core <!here>.bin", size=9, unread="" if why == "too_long" else why)  # type: ignore[arg-type]  # of the table
    item = InboxItem(id="i", kind="mention", incident="inc-aaaaaa", at=NOW, attachments=(given,), data={SIDE_KEY: side})
    rows = stored(files=[{"name": given.name, "size": 9, "unread": why}, {"name": "of-somebody-else.log", "unread": why}])
    view = view_of(IncidentView(IncidentState(**{**rows.stored, "item": item.model_dump(mode="json")})))
    for card in (
        tenant_card.render_tenant_card(view),
        tenant_card.render_update(view),
        *(tenant_card.render_recheck_result(view, tenant_reports_failure=reports) for reports in (True, False)),
    ):
        said = json.dumps([card.text, card.blocks])
        assert ("I could not read core" in said) is (side == TENANT_SIDE)
        assert "<!here>" not in said
        assert "of-somebody-else" not in said
    assert "of-somebody-else" not in text_of(view)


def test_a_block_says_the_oldest_driver_of_their_own_machines() -> None:
    def drivers(host: str, driver: str, cuda: str) -> list[Fact]:
        return [Fact("smi", "driver.version", driver, host=host), Fact("smi", "driver.cuda_version", cuda, host=host)]

    facts = [*drivers("gpu-003", "570.148.08", "12.8"), *drivers("gpu-004", "535.161.08", "12.2"), *drivers("gpu-001", "470.1.1", "11.4")]
    known = add_driver_versions(get_no_slot_values, facts, OWN)
    assert known("any", ()) == {"driver": "535.161.08", "cuda": "12.2"}
    assert known("any", ("gpu-003",)) == {"driver": "570.148.08", "cuda": "12.8"}
    assert add_driver_versions(get_no_slot_values, drivers("gpu-003", "$(rm)", "N/A"), OWN)("any", ()) == {}


def answered(intent: Intent, view: TenantView, *hosts: str, unknown: Sequence[str] = ()) -> str:
    card = render_answer(ANSWER_BY_INTENT[intent], view, hosts, unknown)
    return json.dumps([card.text, card.blocks], ensure_ascii=False)


def test_why_is_answered_by_what_their_own_job_shows_and_by_no_secret_of_ours() -> None:
    line = Evidence(host="gpu-003", check="env", key="env.nccl.NCCL_SOCKET_IFNAME", line="NCCL_SOCKET_IFNAME=docker0")
    said = answered(Intent.EXPLAIN, view_of(stored(cause(IFNAME, "gpu-003", evidence=[line]), cause(FALLEN, "gpu-004"))))
    assert "NCCL_SOCKET_IFNAME=docker0" in said
    assert "gpu-004" in said
    assert not [secret for secret in SECRETS if secret in said]


def test_a_machine_is_told_as_it_was_seen_and_never_called_sound_unseen() -> None:
    view = TenantView("inc-aaaaaa", "healthy", hosts=("gpu-003", "gpu-004"), silent=("gpu-004",))
    assert "found so far with gpu-003." in answered(Intent.HOST_STATE, view, "gpu-003")
    assert "did not answer me: gpu-004" in answered(Intent.HOST_STATE, view, "gpu-004")
    assert "gpu-007: not looked at" in answered(Intent.HOST_STATE, view, "gpu-007")
    everything = answered(Intent.GROUP_STATE, view)
    assert "found so far with gpu-003." in everything
    assert "did not answer me: gpu-004" in everything
    assert "no such machine of yours: gpu-001" in answered(Intent.HOST_STATE, view, unknown=["gpu-001"])
    early = answered(Intent.HOST_STATE, TenantView("inc-aaaaaa", "received", hosts=("gpu-003",)), "gpu-003")
    assert "nothing found" not in early


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_question_with_an_answer_has_one_in_every_language(language: str) -> None:
    view = view_of(stored(cause(FALLEN, "gpu-004")), language)
    for intent in ANSWER_BY_INTENT:
        assert len(answered(intent, view, "gpu-004")) > 20


# -- what waits for the tenant's quota -------------------------------------------------------------------------------------------


def test_what_waits_is_one_line_a_customer_bounded_and_escaped() -> None:
    rows = [WaitingTenantView(f"t{n} <!here>", 5000, f"inc-{n}", T0, "mentions", T0, "@channel *all* hangs " * 400) for n in range(40)]
    shown = quota_waiting.render_waiting_tenants(rows)
    assert [block["type"] for block in shown] == ["section", "actions"] * quota_waiting.MAX_TENANTS + ["context"]
    assert "35 more customers" in str(shown[-1])
    assert "<!here>" not in str(shown)
    assert all(len(block["text"]["text"]) < 600 for block in shown if block["type"] == "section")
    assert [block["type"] for block in quota_waiting.render_waiting_tenants(rows[:1], buttons=False)] == ["section"]
    assert quota_waiting.render_waiting_tenants([]) == []


TAKEN_OUT = [
    label for label, leaf in WORDS.taxonomy.leaves.items() if leaf.owner != "customer" and "taken out for repair" in leaf.customer_words
]


@pytest.mark.parametrize("label", TAKEN_OUT)
def test_a_drain_is_not_announced_before_its_approval(label: str) -> None:
    rows = stored(cause(label, "gpu-003"), ladders=[ladder()])
    assert "taken out" not in text_of(view_of(rows))
    assert "taken out for repair" in text_of(view_of(rows, begun={"apr-1"}))
