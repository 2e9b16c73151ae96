"""Cards put the root cause first and the next step last, fit Slack, and their buttons decode to what was encoded."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block as SlackBlock

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import BadForm, ButtonClick, OldButton
from bot.incidents.cards import close_form, details, diagnosis, handoff_card, home, notes, progress, questions, return_buttons
from bot.incidents.cards.handoff_content import (
    InvalidTicketChange,
    build_handoff,
    format_evidence_file,
    list_output_digests,
    require_unresolved_ticket,
)
from bot.incidents.cards.incident_card import IncidentCardView
from bot.incidents.cards.incident_card import render_incident_card as render_living
from bot.incidents.cards.incident_status import IncidentStatus
from bot.incidents.handlers import slack_markup
from bot.remediation.cards import brakes
from graph.context import Progress
from graph.incident_view import IncidentView, serialize_remediations
from graph.remediation.drained_nodes import DrainedNode
from graph.report import HostsSummary, PlannedAction, Report
from graph.state import ABSTAIN, NO_FAULT, Evidence, HandoffTicket, Hypothesis, IncidentCosts, IncidentState, Remediation, UnobservedCheck
from kb.redact import show_invisible
from tools.fact import Fact
from tools.inventory.name_suggestions import UnknownName
from tools.ledger.brakes import Brakes
from tools.ledger.headroom import BrakeHeadroom, GroupHeadroom, IncidentHeadroom

NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
XID = Evidence(
    host="gpu-017",
    check="dmesg",
    key="xid",
    device="gpu5",
    line="NVRM: Xid (PCI:0000:9b:00): 79, <gone>",
    says="Xid 79 on gpu5: gone",
    time=NOW,
    sha256="ab" * 32,
)
FELL = Hypothesis(
    label="GPU.BUS.Fell_Off",
    hosts=("gpu-017",),
    devices=("gpu-017/gpu5",),
    verdict="confirmed",
    confidence=0.996,
    because="Xid 79 and no config space",
    evidence=(XID, XID.model_copy(update={"check": "lspci", "line": "0000:9b:00.0 3D (rev ff)", "says": "lspci shows rev ff"})),
)
COOL = Hypothesis(label="GPU.THERMAL.Slowdown", hosts=("gpu-017",), verdict="rejected", because="41 °C")
REPORT = Report(
    item="T1.C1.1",
    outcome="diagnosed",
    headline="GPU 5 of gpu-017 fell off the bus",
    root_causes=(FELL,),
    ruled_out=(COOL,),
    could_not_look=tuple(UnobservedCheck(host=f"gpu-0{n}", check="ibstat", why="permission denied") for n in (18, 19)),
    without_model="no key",
    next_step="Drain gpu-017 and reboot it.",
)


def shown(blocks: tuple[Block, ...]) -> str:
    """Return all words of a card from top to bottom."""

    def words(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [v for k, v in value.items() if k == "text" and isinstance(v, str)] + [w for v in value.values() for w in words(v)]
        return [w for v in value for w in words(v)] if isinstance(value, list) else []

    return "\n".join(w for block in blocks for w in words(block))


def buttons(blocks: tuple[Block, ...]) -> list[Block]:
    rows = [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
    return [element for element in rows if element["type"] == "button"]


def click(button: Block) -> dict[str, Any]:
    return {"type": "block_actions", "actions": [{"action_id": button["action_id"], "value": button["value"]}]}


def valid(card: Card) -> bool:
    for block in card.blocks:
        parsed = SlackBlock.parse(block)
        assert parsed is not None
        parsed.validate_json()
    return len(card.blocks) <= 50 and bool(card.text)


TITLES = {"GPU.BUS.Fell_Off": "GPU fell off the bus", "GPU.THERMAL.Slowdown": "GPU too hot", "GPU.MEMORY.ECC": "Memory error"}


def test_a_diagnosis_is_five_lines_what_where_how_sure_why_do_this() -> None:
    card = diagnosis.render_diagnosis("i1", REPORT, IncidentCosts(hosts=4, checks=40, makespan_seconds=12.3), titles=TITLES)
    words = shown(card.blocks)
    order = [
        "🔴 GPU fell off the bus",
        "*gpu-017/gpu5* · 99 % sure",
        "• Xid 79 on gpu5: gone (dmesg 03:10 UTC)",
        "• lspci shows rev ff (lspci 03:10 UTC)",
        "*Could not look:* gpu-[018-019] ibstat",
        "*Not:* GPU too hot",
        "*Next:* Drain gpu-017",
        "i1 · 4 hosts in 12 s · without a model",
        "Details",
    ]
    assert valid(card)
    assert [words.find(part) for part in order] == sorted(words.find(part) for part in order)
    assert -1 not in [words.find(part) for part in order]
    assert "GPU.BUS.Fell_Off" not in words
    assert "NVRM" not in words
    assert card.text == "🔴 GPU 5 of gpu-017 fell off the bus"


def test_of_several_causes_each_says_what_and_where_and_those_past_the_second_are_named() -> None:
    causes = [FELL.model_copy(update={"label": label, "devices": (f"gpu-017/gpu{n}",)}) for n, label in enumerate(TITLES)]
    words = shown(diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"root_causes": tuple(causes)}), titles=TITLES).blocks)
    for part in (
        "🔴 3 causes found",
        "*GPU fell off the bus* · *gpu-017/gpu0*",
        "*GPU too hot* · *gpu-017/gpu1*",
        "*And:* Memory error (*gpu-017/gpu2*)",
    ):
        assert part in words


def test_the_same_words_of_several_hosts_are_one_line() -> None:
    each = tuple(XID.model_copy(update={"host": f"gpu-0{n}"}) for n in (17, 18, 19))
    cause = FELL.model_copy(update={"hosts": ("gpu-017", "gpu-018", "gpu-019"), "devices": (), "evidence": each, "because": ""})
    words = shown(diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"root_causes": (cause,)}), titles=TITLES).blocks)
    assert "• Xid 79 on gpu5: gone (dmesg on gpu-[017-019] 03:10 UTC)" in words.replace("gpu-0[17-19]", "gpu-[017-019]")


def test_signs_of_outcomes_differ_in_more_than_their_colour() -> None:
    for table in (dict(diagnosis.FOUND_MARKS), {outcome: sign for outcome, (sign, _) in diagnosis.OUTCOME_HEADLINES.items()}):
        assert sum(sign in "🔴🟠🟡🟢🔵⚪⚫" for sign in table.values()) <= 1
        assert all(show_invisible(sign) == sign for sign in table.values()), "a heading would spell out what the sign is made of"
    assert len({sign for sign, _ in diagnosis.OUTCOME_HEADLINES.values()}) == len(diagnosis.OUTCOME_HEADLINES)


def test_no_fault_is_said_as_done() -> None:
    words = shown(diagnosis.render_diagnosis("i1", Report(item="x", outcome="no_fault", next_step="Nothing to fix.")).blocks[:-2])
    assert words.startswith("✅ No fault found")
    assert "?" not in words


@pytest.mark.parametrize("does", ["details", "hand_off"])
def test_a_diagnosis_button_comes_back_as_it_was_made(does: str) -> None:
    [made] = [b for b in buttons(diagnosis.render_diagnosis("i1", REPORT).blocks) if diagnosis.BUTTONS[b["action_id"]] == does]
    assert diagnosis.parse_diagnosis_click(click(made)) == ButtonClick(does, "i1", "T1.C1.1")


def test_handing_off_asks_before_it_does() -> None:
    [made] = [b for b in buttons(diagnosis.render_diagnosis("i1", REPORT).blocks) if b["action_id"] == diagnosis.HAND_OFF_ACTION_ID]
    assert made["confirm"]["confirm"]["text"] == "Hand off"


def test_an_answer_to_a_question_is_shown_alone_with_its_lines_as_they_were_printed() -> None:
    reply = "Fell off: confirmed\n  gpu-017 dmesg: *Xid* 79\nThat is all."
    card = diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"reply": reply}))
    assert [b["text"]["text"] for b in card.blocks[:3]] == ["Fell off: confirmed", "```\ngpu-017 dmesg: *Xid* 79\n```", "That is all."]
    assert not buttons(card.blocks)


def test_questions_tell_how_to_answer() -> None:
    report = Report(item="x", outcome="abstained", questions=("Which hosts?",), suggestions=("Try a smaller batch",))
    words = shown(diagnosis.render_diagnosis("i1", report).blocks)
    assert "1. Which hosts?" in words
    assert "Try a smaller batch" in words
    assert valid(questions.render_question_card(report.questions, report.suggestions))


UNKNOWN = (UnknownName("gpu-099", ("gpu-019", "gpu-009")), UnknownName("foo-12"))


@pytest.mark.parametrize("reply", ["", "Not in the inventory: gpu-099."])
def test_of_an_unknown_host_the_nearest_are_offered_and_a_choice_is_a_new_fact(reply: str) -> None:
    card = diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"unknown_hosts": UNKNOWN, "reply": reply}))
    assert valid(card)
    [block] = [b for b in card.blocks if b["type"] == "actions" and b["elements"][0]["type"] == "static_select"]
    [select] = block["elements"]
    options = [option for group in select["option_groups"] for option in group["options"]]
    assert [option["value"] for option in options] == ["gpu-019", "gpu-009"]
    chosen = {"action_id": select["action_id"], "block_id": block["block_id"], "selected_option": options[1]}
    assert questions.parse_host_choice({"type": "block_actions", "actions": [chosen]}) == ButtonClick("reply", "i1", "T1.C1.1", "gpu-009")
    assert reply or "gpu-099 (did you mean gpu-019 or gpu-009?), foo-12." in shown(card.blocks)


def test_a_choice_that_is_none_of_ours_is_refused() -> None:
    assert not questions.render_host_choice("i1", "T1", (UnknownName("foo-12"),))
    for actions in (
        [],
        [{"action_id": questions.HOST_CHOICE_ACTION_ID, "block_id": "x"}],
        [{"action_id": "other", "block_id": "{}", "selected_option": {}}],
    ):
        with pytest.raises(OldButton):
            questions.parse_host_choice({"actions": actions})


def test_what_was_asked_is_answered_above_what_else_was_seen() -> None:
    about = HostsSummary(hosts=("gpu-002",), found="nothing", checks=22)
    words = "gpu-002: 22 checks, nothing abnormal."
    card = diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"about": about, "also_seen": (FELL.label,), "headline": words}))
    told = shown(card.blocks)
    assert told.startswith(f"✅ {words}")
    assert told.index("Also seen") < told.index("*gpu-017/gpu5*")
    assert "`recheck gpu-017`" in told
    offered = PlannedAction(label=FELL.label, rung=0, remedy="reboot", target="gpu-017", via="gpu-017")
    asked = REPORT.model_copy(update={"about": about, "also_seen": (FELL.label,), "actions": (offered,)})
    assert "recheck" not in shown(diagnosis.render_diagnosis("i1", asked).blocks)


@given(st.lists(st.text(max_size=500), max_size=80), st.text(max_size=4000))
@settings(max_examples=30)
def test_a_report_of_any_size_is_a_card_that_slack_takes(lines: list[str], words: str) -> None:
    causes = tuple(FELL.model_copy(update={"because": words, "evidence": (XID.model_copy(update={"line": line}),) * 12}) for line in lines)
    card = diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"root_causes": causes, "headline": words, "next_step": words}))
    assert valid(card)
    assert len(buttons(card.blocks)) == 2


def test_a_foreign_button_is_refused_in_words() -> None:
    payloads: tuple[dict[str, Any], ...] = (
        {},
        {"actions": []},
        click({"action_id": "other", "value": "{}"}),
        click({"action_id": diagnosis.DETAILS_ACTION_ID, "value": "[]"}),
    )
    for payload in payloads:
        with pytest.raises(OldButton):
            diagnosis.parse_diagnosis_click(payload)


def test_the_living_card_keeps_what_was_understood_while_news_come_and_go() -> None:
    living = progress.ProgressCard("i1")
    for news in (
        Progress("i1", "summarise", "NCCL timeout on gpu-[017-020]"),
        Progress("i1", "plan", "two similar incidents", hypotheses=("GPU.BUS.Fell_Off gpu-017",)),
        Progress("i1", "execute", "asking 4 hosts", done=12, total=40),
        Progress("i1", "reflect", "weighing"),
    ):
        living = progress.apply_progress(living, news)
    words = shown(blocks.replace_plan_blocks(progress.render_progress(living)).blocks)
    assert "NCCL timeout on gpu-[017-020]" in words
    assert "GPU.BUS.Fell_Off gpu-017" in words
    steps = [line for line in words.splitlines() if line[:1] in blocks.TASK_STATUS_MARKS.values()]
    assert [line[0] for line in steps if "12 of 40 checks" in line] == [blocks.TASK_STATUS_MARKS["complete"]]
    assert [line[0] for line in steps if line.endswith("weighing")] == [blocks.TASK_STATUS_MARKS["in_progress"]]


STATE: IncidentState = {
    "id": "i1",
    "opened_at": NOW.isoformat(),
    "said": [{"user": "U1", "at": (NOW + timedelta(minutes=1)).isoformat(), "text": "job 4711 hangs\nsee log"}],
    "brief": {"text": "job 4711 hangs", "hosts": ["gpu-017", "gpu-018"]},
    "hypotheses": [COOL.model_dump(mode="json"), FELL.model_dump(mode="json")],
    "report": REPORT.model_dump(mode="json"),
    "ticket": {"state": "open", "owner": "provider"},
}


def test_a_ticket_tells_who_should_act_and_what_is_wrong_where_and_the_rest_stands_behind_details() -> None:
    card = handoff_card.render_ticket(build_handoff(STATE), TITLES)
    words = shown(card.blocks)
    assert valid(card)
    for part in (
        "*gpu-[017-018]*",
        "*provider*",
        "*GPU fell off the bus* · *gpu-017/gpu5* · 99 % sure",
        "*Asked:* job 4711 hangs",
        "*Not:* ",
    ):
        assert part in words
    assert "GPU.BUS" not in words, "people read titles"
    behind = shown(details.render_details(IncidentView(STATE), TITLES, {}, REPORT.item)["blocks"])
    assert "someone wrote: job 4711 hangs" in behind


def test_a_ticket_says_which_nodes_are_out_of_service_who_approved_that_and_since_when() -> None:
    rows = [
        Remediation(
            id=f"l{n}",
            label="GPU.BUS.Fell_Off",
            target=f"gpu-{n:03}",
            drained=True,
            drained_at=NOW,
            drained_by="<!here> Olga",
            outcome="ticket",
            says=f"no remedy is left; gpu-{n:03} stays drained",
        )
        for n in range(1, 9)
    ]
    card = handoff_card.render_ticket(build_handoff({**STATE, "ladders": serialize_remediations(rows)}))
    words = shown(card.blocks)
    assert valid(card)
    [held] = [line for line in words.splitlines() if line.startswith("*gpu-001* drained ")]
    for part in ("since 2026-05-20 03:10 UTC", "by &lt;!here&gt; Olga;", "no remedy is left"):
        assert part in held
    assert "… and 2 more" in words
    assert "*Held*" not in shown(handoff_card.render_ticket(build_handoff(STATE)).blocks)


def test_ticket_buttons_come_back_as_they_were_made() -> None:
    take, wait, close, written, more = buttons(handoff_card.render_ticket(build_handoff(STATE)).blocks)
    assert [handoff_card.parse_ticket_click(click(b)) for b in (take, wait, close, written)] == [
        ButtonClick("take", "i1"),
        ButtonClick("wait", "i1"),
        ButtonClick("close_form", "i1"),
        ButtonClick("report", "i1"),
    ]
    assert diagnosis.parse_diagnosis_click(click(more)) == ButtonClick("details", "i1", REPORT.item)


def test_a_ticket_that_waits_for_others_says_who_has_it_and_offers_to_go_on() -> None:
    waits = {**STATE, "ticket": HandoffTicket(state="waiting", taken_by="olga").model_dump()}
    card = handoff_card.render_ticket(build_handoff(waits))  # type: ignore[arg-type]  # a TypedDict spread
    assert "olga" in shown(card.blocks)
    assert [one["action_id"] for one in buttons(card.blocks)][:2] == [handoff_card.TAKE_ACTION_ID, handoff_card.CLOSE_ACTION_ID]


def test_a_closed_ticket_shows_the_truth_and_is_only_written_down() -> None:
    closed = {
        **STATE,
        "ticket": HandoffTicket(state="resolved", closed_by="olga", true_label="GPU.BUS.Fell_Off", true_cause="loose riser").model_dump(),
    }
    card = handoff_card.render_ticket(build_handoff(closed))  # type: ignore[arg-type]  # a TypedDict spread
    assert "olga" in shown(card.blocks)
    assert "loose riser" in shown(card.blocks)
    assert [handoff_card.parse_ticket_click(click(one)).does for one in buttons(card.blocks)] == ["report"]


def test_a_ticket_is_closed_once() -> None:
    require_unresolved_ticket(HandoffTicket(state="taken"), "take")
    require_unresolved_ticket(HandoffTicket(state="taken"), "close_form")
    for does in ("take", "wait", "close_form"):
        with pytest.raises(InvalidTicketChange):
            require_unresolved_ticket(HandoffTicket(state="resolved"), does)


def test_the_evidence_file_holds_the_outputs_behind_what_is_cited_first() -> None:
    whole = build_handoff(STATE)
    other = Fact("smi", "gpu.count", 8, sha256="cd" * 32)
    assert list_output_digests(whole, [other, other]) == ("ab" * 32, "cd" * 32)
    text = format_evidence_file(whole, {"ab" * 32: "raw dmesg"})
    for part in (
        "raw dmesg",
        "confirmed    99 %  GPU.BUS.Fell_Off  gpu-017/gpu5",
        "03:10:00 gpu-017 dmesg: NVRM",
        "gpu-018  ibstat: permission denied",
    ):
        assert part in text
    assert "more characters" in format_evidence_file(whole, {"ab" * 32: "x" * 5000}, max_chars=1000)


def test_a_ticket_of_an_empty_incident_still_renders() -> None:
    assert valid(handoff_card.render_ticket(build_handoff({"id": "i1"})))


OFFERED = close_form.build_label_choices([("GPU.BUS.Fell_Off", "GPU fell off the bus"), ("SYSTEM_SOFTWARE.DRIVER.Old", "Driver too old")])


def submit(view: Block, label: str, cause: str, hosts: str) -> dict[str, Any]:
    values = {
        close_form.CLOSE_LABEL_BLOCK_ID: {close_form.CLOSE_LABEL_BLOCK_ID: {"selected_option": {"value": label} if label else None}},
        close_form.CAUSE_BLOCK_ID: {close_form.CAUSE_BLOCK_ID: {"value": cause or None}},
        close_form.HOSTS_BLOCK_ID: {close_form.HOSTS_BLOCK_ID: {"value": hosts or None}},
    }
    return {"type": "view_submission", "view": {"private_metadata": view["private_metadata"], "state": {"values": values}}}


def test_a_closing_form_comes_back_as_it_was_filled() -> None:
    closing = close_form.IncidentClosure("i1", "GPU.BUS.Fell_Off", "loose riser", ("gpu-017", "gpu-018"))
    view = close_form.render_close_form(closing, OFFERED)
    label, cause, hosts = (block["element"] for block in view["blocks"])
    assert [[option["value"] for option in group["options"]] for group in label["option_groups"]] == [
        ["GPU.BUS.Fell_Off"],
        ["SYSTEM_SOFTWARE.DRIVER.Old"],
        [NO_FAULT, ABSTAIN],
    ]
    assert (
        close_form.parse_close_form(submit(view, label["initial_option"]["value"], cause["initial_value"], hosts["initial_value"]))
        == closing
    )


def test_a_closing_form_says_under_each_field_what_to_mend() -> None:
    view = close_form.render_close_form(close_form.IncidentClosure("i1", "", ""), OFFERED)
    with pytest.raises(BadForm) as bad:
        close_form.parse_close_form(submit(view, "", "", "gpu-[1-"))
    assert set(bad.value.problems) == {close_form.CLOSE_LABEL_BLOCK_ID, close_form.CAUSE_BLOCK_ID, close_form.HOSTS_BLOCK_ID}
    with pytest.raises(OldButton):
        close_form.parse_close_form({"view": {}})


def test_home_lists_the_oldest_incident_first_with_a_link_to_its_thread() -> None:
    late = home.OpenIncident("i2", "open", NOW, "Link down")
    early = home.OpenIncident("i1", "handed_off", NOW - timedelta(hours=5), "", ("gpu-017", "gpu-018"), "T1", "C1", "1700000000.000100")
    theirs = home.OpenIncident("i3", "open", NOW, "GPU gone", elsewhere=True)
    assert home.ELSEWHERE_TEXT in shown(tuple(home.render_incident_list([theirs], NOW)))
    stopped = shown(tuple(home.render_incident_list([home.OpenIncident("i4", "open", NOW, "GPU gone", stopped=True)], NOW)))
    assert home.STOPPED_TEXT in stopped
    assert home.LIFECYCLE_WORDS["open"] not in stopped
    words = shown(tuple(home.render_home_tab(home.HomeTab([late, early]), NOW)["blocks"]))
    assert words.index("*gpu-[017-018]* not diagnosed yet") < words.index("Link down")
    assert "opened 5 h ago" in words
    assert "https://app.slack.com/client/T1/C1/thread/C1-1700000000.000100" in words


def test_home_shows_what_is_mine_what_we_hold_and_what_became_of_a_press() -> None:
    gone, stuck = [
        DrainedNode(f"l{n}", f"gpu-00{n}", "GPU.BUS.Fell_Off", "Olga <!here>", NOW - timedelta(hours=n), "an approver said no", why)
        for n, why in ((1, ""), (2, "a remedy was run and is not proved to have helped"))
    ]
    open_ = home.OpenIncident("i1", "handed_off", NOW, "Link down", owners=frozenset({"U1"}), drained_nodes=(gone,))
    closed = home.OpenIncident(
        "i2", "closed", NOW, "GPU gone", team="T1", channel="C1", thread_ts="1700000000.000100", drained_nodes=(stuck,)
    )
    tab = home.HomeTab([open_, closed], "U1", {"GPU.BUS.Fell_Off": "GPU fell off the bus"}, note="the fault is there")
    view = home.render_home_tab(tab, NOW)
    words = shown(tuple(view["blocks"]))
    assert len([block for block in view["blocks"] if block["type"] == "header"]) == 3, "mine, open, and what is held"
    assert "*the fault is there*" in words, "the note"
    assert words.count("Link down") == 2
    assert "GPU gone" not in words
    assert "by Olga &lt;!here&gt;, for GPU fell off the bus; an approver said no" in words
    assert words.index("gpu-002") < words.index("gpu-001"), "the longest held first"
    assert stuck.no_return in words
    asked = [button for block in view["blocks"] if block["type"] == "actions" for button in block["elements"]]
    assert [return_buttons.parse_return_click(click(button)) for button in asked] == [ButtonClick("ask_return", "i1", "l1")]


def test_an_empty_home_says_so_in_a_word_each() -> None:
    listed = home.render_home_tab(home.HomeTab([]), NOW)["blocks"]
    assert home.NOTHING_OPEN_TEXT in shown(tuple(listed))
    assert not [first for first, then in pairwise(listed) if first["type"] == then["type"] == "header"]
    assert listed[-1]["type"] != "header"


def test_home_says_which_channels_are_not_served_and_why() -> None:
    channels = {"C1": True, "C2": None, "<!here>": True, **{f"C{n}": True for n in range(3, 40)}}
    words = shown(tuple(home.render_home_tab(home.HomeTab([], unserved_channels=channels), NOW)["blocks"]))
    assert f"<#C1>{home.SHARED_CHANNEL_TEXT[0]}" in words
    assert f"<#C2>{home.UNKNOWN_SHARING_TEXT[0]}" in words
    assert "<!here>" not in words
    assert "… and 35 more" in words


def test_home_of_a_large_outage_fits() -> None:
    rows = tuple(DrainedNode(f"l{n}", f"gpu-{n:03}" * 20, "X", "Olga" * 90, NOW, "y" * 3000) for n in range(64))
    whole = [home.OpenIncident(f"i{n}", "open", NOW, "x" * 200, owners=frozenset({"U1"}), drained_nodes=rows) for n in range(100)]
    room = BrakeHeadroom(
        Brakes(), tuple(GroupHeadroom(f"g{n}", 0, 3, 0, 6) for n in range(40)), tuple(IncidentHeadroom(f"i{n}", 4, NOW) for n in range(40))
    )
    view = home.render_home_tab(
        home.HomeTab(
            whole, "U1", pending_approvals=brakes.render_waiting_approvals([], "None."), brakes=brakes.render_change_allowance(room)
        ),
        NOW,
    )
    assert len(view["blocks"]) <= 100
    assert len(json.dumps(view)) < 250_000
    many = [home.OpenIncident(f"i{n}", "open", NOW, "x" * 200) for n in range(300)]
    assert len(home.render_home_tab(home.HomeTab(many), NOW)["blocks"]) <= 100
    assert home.NOTHING_OPEN_TEXT in shown(tuple(home.render_home_tab(home.HomeTab([]), NOW)["blocks"]))


def test_small_cards_are_valid_and_help_lists_the_grammar() -> None:
    bugs = [
        notes.render_internal_error("e1f2", known)
        for known in (notes.MESSAGE_ERROR_TEXT, notes.DECISION_ERROR_TEXT, notes.COMMAND_ERROR_TEXT)
    ]
    for card in (
        notes.render_refusal("No, because."),
        *bugs,
        notes.render_not_stored(True),
        home.render_help(slack_markup.list_help_rows()),
    ):
        assert valid(card)
    assert all(form in shown(home.render_help(slack_markup.list_help_rows()).blocks) for form, _ in slack_markup.list_help_rows())


def test_what_an_answer_tells_people_to_say_is_code_and_a_lone_back_tick_is_not() -> None:
    card = diagnosis.render_diagnosis(
        "i1", REPORT.model_copy(update={"reply": "Reopened. Say `recheck gpu-[001-002]` to look.\nIt printed ` and <@U1>"})
    )
    assert card.blocks[0]["text"]["text"] == "Reopened. Say `recheck gpu-[001-002]` to look.\nIt printed ˋ and &lt;@U1&gt;"


def test_what_went_to_people_without_a_look_says_so_and_no_more() -> None:
    card = render_living(IncidentCardView("i1", status=IncidentStatus("ticket", ("Waiting for a person to take it.",))))
    assert valid(card)
    assert "Waiting for a person to take it" in shown(card.blocks), "the standing's line"
    assert not buttons(card.blocks)
