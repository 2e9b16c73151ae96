"""Approval cards under hostile input show host, command and digest whole or have no Approve button; no mentions, no
links.
"""

import json
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.cards import blocks, text
from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, StaleCard
from bot.remediation.action_callbacks import LOST_CONTACT_TEXT, format_contact_loss
from bot.remediation.cards import action_text as action_words
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import card_parts, modals, outcomes, side_effects
from bot.remediation.cards.approval_card import BUTTONS, ApprovalCardView, CardClick
from deploy.sandbox.slack.workspace.blockkit import exceeds_text_limit, find_problems, find_view_problems
from kb.redact import show_invisible
from tests.bot.cards.test_blocks import without_pairs
from tests.support.clock import T0
from tests.support.fakes_approvals import APPROVERS
from tests.support.fakes_bot import TEAM
from tests.support.fakes_ledger import action
from tools.action import Action, FaultCondition
from tools.execution.conditions import ConditionResult
from tools.execution.delete_preview import DeletePreview, OldFile
from tools.fact import Fact
from tools.ledger.record import ActionRecord, ApprovalTerms, Vote
from tools.ledger.states import State

pytestmark = pytest.mark.slow


GROUP = "S0GPUAPPR"
HOSTILE = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="<>&!@#|`*_~:/ \n\t\u202e\u200b\u2066аgpu-017‹›", max_size=120),
    st.sampled_from(
        [
            "<!channel> look",
            "<!subteam^S0EVIL>",
            "<@U0OLGA>",
            "https://evil.example/?q=1",
            "gрu-017",
            "gpu‑017",
            "\u202e710-upg",
            "```\n*Approved by @priya*\n```",
            "digest `" + "0" * 64 + "`",
            "x" * 100_000,
            "🔥" * 4000,
            "&" * 3000,
            "a  b ",
            " ",
            "",
            "\ud800 lone",
        ]
    ),
)
STATES = st.sampled_from(list(State))


STRAY = re.compile(r"&(?!(?:amp|lt|gt);)")


def record_of(**changes: Any) -> ActionRecord:
    more = {
        name: changes.pop(name) for name in ("state", "says", "votes", "outcome", "ended_by", "exit_status", "quorum") if name in changes
    }
    quorum = more.pop("quorum", 1)
    return ActionRecord(
        action(incident="inc-1", **changes),
        ApprovalTerms(APPROVERS, quorum),
        more.pop("state", State.PENDING),
        more.pop("votes", ()),
        T0,
        T0,
        **more,
    )


def strings(thing: Any) -> list[str]:
    """Return every text that Slack would show."""
    if isinstance(thing, dict):
        return [v for k, v in thing.items() if k == "text" and isinstance(v, str)] + [t for v in thing.values() for t in strings(v)]
    return [t for item in thing for t in strings(item)] if isinstance(thing, list | tuple) else []


def unparsed(thing: Any) -> set[str]:
    """Return texts in which Slack parses no tokens, so an ampersand that begins no escape is allowed."""
    if isinstance(thing, dict):
        own = {str(thing["text"])} if thing.get("type") == "plain_text" else set()
        return own.union(*(unparsed(value) for value in thing.values()))
    return set().union(*(unparsed(item) for item in thing)) if isinstance(thing, list | tuple) else set()


def buttons(card: Card) -> dict[str, dict[str, Any]]:
    return {e["action_id"]: e for b in card.blocks if b["type"] == "actions" for e in b["elements"]}


def click(card: Card, action_id: str) -> dict[str, Any]:
    return {"actions": [{"action_id": action_id, "value": buttons(card)[action_id]["value"]}]}


def test_a_command_with_ampersands_is_shown_as_it_is_and_an_escape_never_decodes() -> None:
    assert text.strip_markup("a && b <c>") == "a && b ‹c›"
    assert text.strip_markup("&lt;!here&gt; &amp;lt;") == "＆lt;!here＆gt; ＆amp;lt;"
    assert text.render_line(("a && b",), 100) == "a &amp;&amp; b"


def is_safe(card: Card) -> bool:
    """Return whether the card has no control token except our group and dates, nothing hidden and no link."""
    literal = {*unparsed(card.blocks), card.text}
    for shown in [*strings(card.blocks), card.text]:
        rest = STRAY.sub("", shown) if shown in literal else shown
        rest = rest.replace(f"<!subteam^{GROUP}>", "")
        rest = re.sub(r"<!date\^\d{1,12}\^\{(?:time_secs|ago)\}\|[0-9: -]+ UTC>", "", rest)
        rest = without_pairs(re.sub(r"&(amp|lt|gt);", "", rest))
        if re.search(r"[<>&]", rest) or re.search(r"(?i)https?://|ftp://", rest) or show_invisible(rest) != rest:
            return False
    return True


def fits(card: Card) -> bool:
    listed = list(card.blocks)
    return (
        not find_problems(listed, "message")
        and not exceeds_text_limit(listed)
        and text.count_utf16_units(card.text) <= blocks.MAX_FALLBACK_CHARS
    )


def unescaped(shown: str) -> str:
    return shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


@given(HOSTILE, HOSTILE, HOSTILE, st.lists(HOSTILE, min_size=1, max_size=4), STATES)
@settings(max_examples=120)
def test_a_card_is_whole_or_cannot_be_approved_and_mentions_only_the_approvers(
    host: str, device: str, says: str, words: list[str], state: State
) -> None:
    record = record_of(target=host, via=host, devices=(device,), command=tuple(words), args={"bdf": words[0]}, state=state, says=says)
    seen = [ConditionResult("idle", True, says), ConditionResult(device, None, host)]
    for card in (
        approval.render_approval_card(ApprovalCardView(record, GROUP, {}, seen, T0, T0, says, [says] * 30, says)),
        outcomes.render_outcome(ApprovalCardView(record, GROUP, tail=[says])),
        outcomes.render_reminder(ApprovalCardView(record, GROUP)),
    ):
        assert is_safe(card)
        assert fits(card)
    card = approval.render_approval_card(ApprovalCardView(record, GROUP))
    if approval.APPROVE_ACTION_ID in buttons(card):
        assert is_whole(card, record.action)
    elif state is State.PENDING:
        assert approval.TOO_LARGE_TEXT in card.text


def is_whole(card: Card, wanted: Action) -> bool:
    """Return whether host, command and digest each appear whole and unambiguously in one text of the card."""
    shown = [unescaped(t) for t in strings(card.blocks)]
    host, command = text.escape_ambiguous(wanted.target), unescaped(text.exact_code_block(shlex.join(wanted.command)))
    return (
        any(f"`{host}`" in t for t in shown)
        and command in shown
        and f"digest `{wanted.digest}`" in shown
        and not any("… (+" in t for t in shown if command in t)
    )


@given(HOSTILE, HOSTILE)
@settings(max_examples=300)
def test_two_different_texts_never_look_the_same(one: str, two: str) -> None:
    assert (text.escape_ambiguous(one) == text.escape_ambiguous(two)) == (one == two)
    assert text.escape_ambiguous(one).replace("‹", "").replace("›", "").isascii()


@pytest.mark.parametrize("host", ["gpu-01" + "7" * 3000, "g" * 100_000])
def test_what_does_not_fit_cannot_be_approved_only_rejected(host: str) -> None:
    card = approval.render_approval_card(ApprovalCardView(record_of(target=host, via=host), GROUP))
    assert list(buttons(card)) == [approval.REJECT_ACTION_ID]
    assert approval.TOO_LARGE_TEXT in card.text


def test_a_hundred_kilobytes_of_arguments_leave_no_half_command() -> None:
    card = approval.render_approval_card(ApprovalCardView(record_of(command=("nvidia-smi", "-i", "0" * 100_000))))
    assert approval.APPROVE_ACTION_ID not in buttons(card)
    assert "nvidia-smi" not in str(card.blocks)


def test_a_homoglyph_or_a_turned_host_shows_its_codes() -> None:
    for host, code in (("gрu-017", "g‹U+0440›u-017"), ("gpu‑017", "gpu‹U+2011›017"), ("gpu-\u202e710", "gpu-‹U+202E›710")):
        card = approval.render_approval_card(ApprovalCardView(record_of(target=host, via=host)))
        assert f"`{code}`" in str(card.blocks)
        assert code in card.text


@given(HOSTILE, STATES)
@settings(max_examples=100)
def test_every_button_comes_back_as_what_it_was(host: str, state: State) -> None:
    record = record_of(target=host, state=state)
    card = approval.render_approval_card(ApprovalCardView(record))
    for action_id in buttons(card):
        assert approval.parse_card_click(click(card, action_id)) == CardClick(BUTTONS[action_id], record.approval, record.digest)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"actions": []},
        {"actions": [{"action_id": approval.APPROVE_ACTION_ID}]},
        {"actions": [{"action_id": "gone", "value": "{}"}]},
        {"actions": [{"action_id": approval.APPROVE_ACTION_ID, "value": "apr-1"}]},
        {"actions": [{"action_id": approval.APPROVE_ACTION_ID, "value": '{"approval":"apr-1","digest":"3fa9"}'}]},
        {"actions": [{"action_id": approval.APPROVE_ACTION_ID, "value": '["apr-1"]'}]},
    ],
)
def test_a_click_of_an_older_card_is_stale(payload: dict[str, Any]) -> None:
    with pytest.raises(StaleCard, match="nothing was changed"):
        approval.parse_card_click(payload)


BY_STATE = {
    State.PENDING: [approval.APPROVE_ACTION_ID, approval.REJECT_ACTION_ID, approval.EDIT_ACTION_ID],
    State.APPROVED: [approval.REVOKE_ACTION_ID],
    State.EXPIRED: [approval.ASK_AGAIN_ACTION_ID],
    State.UNKNOWN: [approval.RAN_ACTION_ID, approval.NOT_RAN_ACTION_ID],
}


@pytest.mark.parametrize("state", list(State))
def test_each_state_offers_what_can_be_done_in_it_and_mentions_only_while_it_waits(state: State) -> None:
    record = record_of(state=state, exit_status=1 if state is State.FAILED else None)
    card = approval.render_approval_card(ApprovalCardView(record, GROUP, began=T0))
    assert list(buttons(card)) == BY_STATE.get(state, [])
    assert ("<!subteam" in str(card.blocks)) == (state is State.PENDING)
    assert is_whole(card, record.action)
    assert card.text.startswith(action_words.STATE_MARKS[state])


@pytest.mark.parametrize(("remedy", "boots"), [("gpu_reset", False), ("reboot", True)])
def test_a_running_action_whose_host_does_not_answer_says_so_and_not_that_it_runs(remedy: str, boots: bool) -> None:
    record = record_of(state=State.EXECUTING)
    says = format_contact_loss(replace(record.action, remedy=remedy), T0)
    card = approval.render_approval_card(ApprovalCardView(record, GROUP, began=T0, waiting_note=says))
    assert says.startswith(LOST_CONTACT_TEXT)
    assert ("reboot may take" in says) == boots
    assert LOST_CONTACT_TEXT in card.text
    assert "Running" not in card.text + str(card.blocks)
    assert action_words.get_state_word(record, says)[1] == "lost contact"
    assert format_contact_loss(record.action, None) == ""


def test_slack_asks_once_more_with_host_and_command() -> None:
    card = approval.render_approval_card(ApprovalCardView(record_of()))
    ask = buttons(card)[approval.APPROVE_ACTION_ID]["confirm"]
    assert ask["text"]["text"] == f"{approval.APPROVERS_ONLY} On gpu-017: nvidia-smi --gpu-reset -i 0000:9b:00.0"
    long = approval.render_approval_card(ApprovalCardView(record_of(command=("nvidia-smi", "x" * 400))))
    assert "xx" not in buttons(long)[approval.APPROVE_ACTION_ID]["confirm"]["text"]["text"], "a command is whole or not there"
    assert "gpu-017" in buttons(long)[approval.APPROVE_ACTION_ID]["confirm"]["text"]["text"]


def test_a_remedy_without_arguments_of_its_own_cannot_be_edited() -> None:
    for remedy, args in (("reboot", {}), ("drain_node", {"node": "gpu-017", "approval": "apr-000000000000"})):
        assert approval.EDIT_ACTION_ID not in buttons(approval.render_approval_card(ApprovalCardView(record_of(remedy=remedy, args=args))))
        with pytest.raises(StaleCard):
            modals.render_edit_form(record_of(remedy=remedy, args=args))


def test_a_card_without_approvers_says_so() -> None:
    record = replace(record_of(), terms=ApprovalTerms(frozenset(), 1))
    card = approval.render_approval_card(ApprovalCardView(record, GROUP))
    assert card_parts.NOBODY_MAY_APPROVE_TEXT in str(card.blocks)
    assert not buttons(card)
    assert "<!subteam" not in str(card.blocks)


def test_a_group_that_is_no_slack_id_is_not_mentioned() -> None:
    card = approval.render_approval_card(ApprovalCardView(record_of(), "channel"))
    assert is_safe(card)
    assert "<!" not in re.sub(r"<!date[^>]*>", "", str(card.blocks))


def test_votes_requester_and_clocks_are_told_by_name_and_in_utc() -> None:
    vote = Vote("apr-1", "d", f"{TEAM}:U0PRIYA", "approve", "2026-05-20T03:12:00+00:00", "x")
    record = record_of(votes=(vote,), quorum=2, requested_by=f"{TEAM}:U0OLGA")
    card = approval.render_approval_card(ApprovalCardView(record, GROUP, {f"{TEAM}:U0PRIYA": "priya", f"{TEAM}:U0OLGA": "olga"}))
    words = str(card.blocks)
    for must in ("*priya* approved at 03:12:00 UTC", "1 of 2 approvals", "olga, who cannot approve", "(03:10:00 UTC)"):
        assert must in words
    assert f"<!date^{int(T0.timestamp())}^" in words


def test_a_dry_run_tells_what_held_what_did_not_and_what_could_not_be_seen() -> None:
    seen = [
        ConditionResult("no process uses this GPU", False, "4711"),
        ConditionResult("drained", None, "no route to host"),
        ConditionResult("same boot", True, ""),
    ]
    words = str(approval.render_approval_card(ApprovalCardView(record_of(), condition_results=seen, seen_at=T0)).blocks)
    for must in ("✗ no process uses this GPU · `4711`", "? drained · could not look", "✓ same boot (03:10 UTC)"):
        assert must in words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": "passes_now", "exit_status": 0}, "no longer report it"),
        ({"outcome": "unchanged", "exit_status": 0}, "still there"),
        ({"outcome": "worse"}, "stays out of service"),
        ({"outcome": "cured"}, "not come back"),
        ({"outcome": "recurred"}, "came back"),
        ({"remedy": "run_check", "args": {"check": "nccl1"}, "proof": (), "outcome": "passes_now"}, "diagnosis"),
        ({"remedy": "drain_node", "proof": ("sched",), "outcome": "passes_now"}, "scheduler"),
        ({"remedy": "gone_remedy"}, "gone_remedy"),
    ],
)
def test_an_outcome_says_what_is_known(changes: dict[str, Any], words: str) -> None:
    record = record_of(state=State.DONE, **changes)
    for card in (approval.render_approval_card(ApprovalCardView(record)), outcomes.render_outcome(ApprovalCardView(record))):
        assert words in str(card.blocks)


def test_a_command_that_failed_where_the_fault_is_gone_is_told_as_both_and_everywhere_alike() -> None:
    record = record_of(state=State.FAILED, exit_status=1, outcome="passes_now")
    for card in (approval.render_approval_card(ApprovalCardView(record)), outcomes.render_outcome(ApprovalCardView(record))):
        assert card.text.startswith("🟡 Failed, and passes now")
        assert "no longer report it" in str(card.blocks)


def test_a_command_that_failed_and_changed_nothing_is_told_as_both() -> None:
    """As when chronyd may not set the clock."""
    record = record_of(state=State.FAILED, exit_status=1, outcome="unchanged")
    for card in (approval.render_approval_card(ApprovalCardView(record)), outcomes.render_outcome(ApprovalCardView(record))):
        assert card.text.startswith("❌ Failed, unchanged")
        assert "still there" in str(card.blocks)


@pytest.mark.parametrize("state", list(State))
def test_every_headline_names_its_host(state: State) -> None:
    record = record_of(remedy="reboot", args={}, command=("systemctl", "reboot"), devices=(), state=state)
    card = approval.render_approval_card(ApprovalCardView(record))
    header = next(block for block in card.blocks if block["type"] == "header")
    assert record.action.target in header["text"]["text"]


def test_an_exclusive_check_shows_its_hosts_folded_and_what_it_runs() -> None:
    hosts = ",".join(f"gpu-{n:03}" for n in range(1, 65))
    record = record_of(remedy="run_check", args={"check": "nccl1"}, command=("nccl1",), target=hosts, via=hosts, devices=())
    words = str(approval.render_approval_card(ApprovalCardView(record)).blocks)
    assert "64 hosts: `gpu-[001-064]`" in words
    assert "all_reduce_perf" in words


def submitted(view: dict[str, Any], **values: str) -> dict[str, Any]:
    """Return a submission of this form."""
    state = {b["block_id"]: {b["block_id"]: {"value": b["element"].get("initial_value")}} for b in view["blocks"] if b["type"] == "input"}
    state |= {name: {name: {"value": value}} for name, value in values.items()}
    return {"view": {**view, "state": {"values": state}}}


@given(HOSTILE)
@settings(max_examples=60)
def test_forms_fit_and_come_back_as_what_they_were_opened_for(host: str) -> None:
    record = record_of(target=host, args={"bdf": host})
    for view in (modals.render_reject_form(record), modals.render_edit_form(record)):
        assert not find_view_problems(view)
    said = modals.parse_reject_form(submitted(modals.render_reject_form(record), **{modals.REASON_BLOCK_ID: " busy "}))
    assert (said.approval, said.digest, said.reason) == (record.approval, record.digest, "busy")
    edit = modals.parse_edit_form(submitted(modals.render_edit_form(record), **{modals.FIELD_ID_PREFIX + "bdf": "0000:c7:00.0"}))
    assert (edit.approval, edit.digest, edit.values) == (record.approval, record.digest, {"bdf": "0000:c7:00.0"})


def test_forms_say_under_each_field_what_to_mend() -> None:
    with pytest.raises(BadForm) as empty:
        modals.parse_reject_form(submitted(modals.render_reject_form(record_of())))
    assert set(empty.value.problems) == {modals.REASON_BLOCK_ID}
    record = record_of(remedy="kill_gpu_process", args={"pid": "1", "ticks": "2", "signal": "TERM"})
    view = modals.render_edit_form(record)
    wrong = modals.parse_edit_form(submitted(view, **{modals.FIELD_ID_PREFIX + "pid": "-1", modals.FIELD_ID_PREFIX + "signal": "HUP"}))
    with pytest.raises(BadForm) as bad:
        modals.validate_edit(wrong, record.action)
    assert set(bad.value.problems) == {modals.FIELD_ID_PREFIX + "pid", modals.FIELD_ID_PREFIX + "signal"}
    later = modals.build_edit_error(record.action, "pid='7': must be a living process; ticks=3: changed")
    assert set(later.problems) == {modals.FIELD_ID_PREFIX + "pid", modals.FIELD_ID_PREFIX + "ticks"}
    assert set(modals.build_edit_error(record.action, "the host is away").problems) == {modals.FIELD_ID_PREFIX + "pid"}
    with pytest.raises(StaleCard):
        modals.validate_edit(replace(wrong, values={"pid": "1"}), record.action)
    for read in (modals.parse_reject_form, modals.parse_edit_form):
        with pytest.raises(StaleCard):
            read({"view": {"private_metadata": json.dumps({"approval": "a"}), "state": {"values": {}}, "blocks": []}})


def test_a_moment_is_shown_by_the_readers_clock_and_in_utc_where_slack_cannot() -> None:
    span = text.format_slack_date(datetime(2026, 5, 20, 3, 10, tzinfo=UTC))
    assert text.render_line((span,), 200) == "<!date^1779246600^{time_secs}|2026-05-20 03:10:00 UTC>"
    assert text.format_utc_time(datetime(2026, 5, 20, 3, 10, tzinfo=UTC)) == "03:10:00 UTC"


@pytest.mark.parametrize(
    ("remedy", "undo", "said"),
    [
        ("drain_node", "resume_node", "Return gpu-017 to service"),
        ("compute_mode_default", "", "nvidia-smi -i BDF -c EXCLUSIVE_PROCESS"),
        ("cleanup", "", "backup"),
        ("gpu_reset", "", "none"),
    ],
)
def test_the_card_says_what_takes_it_back(remedy: str, undo: str, said: str) -> None:
    assert said in action_words.describe_undo(replace(action(), remedy=remedy, undo=undo))


def test_the_fault_is_the_first_thing_that_must_hold() -> None:
    fault = FaultCondition(
        "GPU.X", "gpu-017", "the clocks of gpu5 are low", ("gpu.clock.app",), ("gpu-017/gpu5",), ("smi",), "8d3a1c52-0b1f", "read", reads=1
    )
    card = approval.render_approval_card(ApprovalCardView(record_of(fault=fault)))
    (held,) = [line for line in strings(card.blocks) if "Re-checked before running" in line]
    assert "• the fault is still there: the clocks of gpu5 are low (by smi)\n• no process uses this GPU" in held
    alone = strings(
        approval.render_approval_card(
            ApprovalCardView(record_of(fault=fault), condition_results=[ConditionResult("no process uses this GPU", True, "")])
        ).blocks
    )
    assert "*Re-checked before running:* the clocks of gpu5 are low (by smi)" in alone
    several = replace(fault, reads=3, lasts="boot")
    assert "reported by smi; valid for boot 8d3a1c52" in "".join(
        strings(approval.render_approval_card(ApprovalCardView(record_of(fault=several))).blocks)
    )


def test_a_command_of_several_lines_is_shown_as_lines() -> None:
    script = "for unit in a b; do\n  systemctl stop $unit\ndone"
    words = str(approval.render_approval_card(ApprovalCardView(record_of(command=("sh", "-c", script)))).blocks[2:5])
    assert "do↵\\n··systemctl stop $unit↵\\ndone" in words
    assert text.exact_code_block("a↵\nb") != text.exact_code_block("a\nb")
    assert text.exact_code_block("a·b") != text.exact_code_block("a  b")


def process_facts(**attrs: Any) -> list[Fact]:
    own = {
        "pid": 41233,
        "user": "alice",
        "job": "4711",
        "seconds": 90113,
        "args": "python3 train.py --token=ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    }
    return [
        Fact("procs", "proc.orphan", 61234, "gpu5", host="gpu-017", attrs=own | {"why": "its parent is gone and no job holds it"} | attrs)
    ]


def test_the_card_of_a_kill_says_whose_process_it_is_how_old_and_what_it_runs() -> None:
    record = record_of(remedy="kill_gpu_process", args={"pid": "41233", "ticks": "9876", "signal": "TERM"})
    known = side_effects.build_process_rows(record.action, process_facts())
    card = approval.render_approval_card(ApprovalCardView(record, GROUP, known_rows=known))
    words = str(card.blocks)
    for said in ("*alice*", "*1 d 1 h*", "*4711*", "*61,234 MiB*", "its parent is gone", "python3 train.py"):
        assert said in words
    assert "ghp_abc" not in words
    assert fits(card)
    assert is_whole(card, record.action)
    elsewhere = [replace(fact, host="gpu-018") for fact in process_facts()]
    assert "alice" not in str(side_effects.build_process_rows(record.action, elsewhere))
    assert side_effects.build_process_rows(record.action, elsewhere) != ()
    assert side_effects.build_process_rows(record_of().action, process_facts()) == ()


@given(HOSTILE, HOSTILE)
@example("", "\U00010c00")
def test_what_a_tenant_calls_a_process_breaks_no_card(user: str, args: str) -> None:
    record = record_of(remedy="kill_gpu_process", args={"pid": "41233", "ticks": "9876", "signal": "TERM"})
    card = approval.render_approval_card(
        ApprovalCardView(record, GROUP, known_rows=side_effects.build_process_rows(record.action, process_facts(user=user, args=args * 9)))
    )
    assert is_safe(card)
    assert fits(card)
    assert is_whole(card, record.action)


OLD = DeletePreview(3214, 125_700_000_000, tuple(OldFile(f"/tmp/ckpt-{n}.pt.tmp", 41875931136, "train", 6000 + n) for n in range(5)))


def test_the_card_of_a_cleanup_says_how_much_would_go_and_names_the_largest_files() -> None:
    record = record_of(remedy="cleanup", args={"hours": "72"}, risk="destructive")
    card = approval.render_approval_card(ApprovalCardView(record, GROUP, known_rows=side_effects.build_file_rows(OLD)))
    words = "".join(strings(card.blocks))
    assert "*3,214 files, 117 GiB*" in words
    for n in range(3):
        assert f"`/tmp/ckpt-{n}.pt.tmp` 39 GiB, train, 4d" in words
    assert fits(card)
    assert is_whole(card, record.action)


def test_what_would_go_and_could_not_be_read_or_not_to_its_end_is_said() -> None:
    record = record_of(remedy="cleanup", args={"hours": "72"}, risk="destructive")
    for seen, said in (
        (DeletePreview(why="its node kit is older than this question"), "*could not be read*: its node kit is older"),
        (replace(OLD, whole=False), "*at least 3,214 files, 117 GiB*"),
        (DeletePreview(), "*no file is "),
    ):
        assert said in "".join(
            strings(approval.render_approval_card(ApprovalCardView(record, GROUP, known_rows=side_effects.build_file_rows(seen))).blocks)
        )


@given(HOSTILE, HOSTILE)
@example("", "\u0606")
def test_what_a_tenant_calls_a_file_breaks_no_card(path: str, owner: str) -> None:
    record = record_of(remedy="cleanup", args={"hours": "72"}, risk="destructive")
    known = json.loads(json.dumps(side_effects.build_file_rows(replace(OLD, largest=(OldFile(path, 1 << 40, owner, 1),) * 5))))
    card = approval.render_approval_card(ApprovalCardView(record, GROUP, known_rows=known))
    assert is_safe(card)
    assert fits(card)
    assert is_whole(card, record.action)
