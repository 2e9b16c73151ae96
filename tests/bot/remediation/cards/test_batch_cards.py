"""The card of several actions: commands, hosts and digests are whole within Slack's limits, with buttons by each row's
state.
"""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.cards import text
from bot.cards.blocks import Card, count_text_chars
from bot.cards.buttons import StaleCard
from bot.remediation.card_batches import MAX_ACTIONS_PER_CARD
from bot.remediation.cards import action_row, card_parts, modals, queued_hosts, shared_card, vote_summary
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards.approval_card import ApprovalCardView
from deploy.sandbox.slack.workspace.blockkit import find_view_problems
from tests.bot.remediation.cards.test_approval_cards import BY_STATE, GROUP, HOSTILE, STATES, fits, is_safe, record_of, strings, unescaped
from tests.support.fakes_approvals import APPROVERS
from tests.support.fakes_bot import TEAM
from tools.execution.conditions import ConditionResult
from tools.ledger import refusals
from tools.ledger.brakes import Brakes
from tools.ledger.record import ActionRecord, ApprovalTerms, Vote, VoteResult
from tools.ledger.states import State

pytestmark = pytest.mark.slow


IDLE = ConditionResult("no process uses this GPU", True, "")


def rows_of(count: int, **changes: Any) -> list[ActionRecord]:
    """Return `count` actions of one remedy on different hosts."""
    return [
        record_of(target=f"gpu-{n:03}", via=f"gpu-{n:03}", devices=(), approval=f"apr-{n:012x}", **changes) for n in range(1, count + 1)
    ]


def render(records: list[ActionRecord], brakes: Brakes | None = None, **more: Any) -> Card:
    return shared_card.render_shared_card([ApprovalCardView(record, GROUP, **more) for record in records], brakes or Brakes())


def sections(card: Card) -> list[str]:
    return [unescaped(block["text"]["text"]) for block in card.blocks if block["type"] == "section"]


def buttons_behind(card: Card, host: str) -> list[str]:
    """Return the buttons directly below a host's row."""
    at = next(n for n, block in enumerate(card.blocks) if block["type"] == "section" and f"`{host}` · *" in block["text"]["text"])
    after = card.blocks[at + 1]
    return [element["action_id"] for element in after["elements"]] if after["type"] == "actions" else []


def test_each_action_has_a_row_with_host_command_digest_and_state() -> None:
    records = rows_of(4)
    records[3] = record_of(target="gpu-004", via="gpu-004", devices=(), approval="apr-4", command=("nvidia-smi", "--gpu-reset", "-i", "0"))
    card = render(records, condition_results=[IDLE], seen_at=records[0].proposed_at)
    for record in records:
        [row] = [words for words in sections(card) if f"`{record.action.target}` · *" in words]
        assert f"```\n{approval.format_command(record.action)}\n```" in row
        assert f"`{record.digest[:16]}…`" in row
        assert "*pending*" in row
        assert "✓ 1 of 1 precondition holds" in row
    words = str(card.blocks)
    assert words.count(f"<!subteam^{GROUP}>") == 1
    assert "gpu-[001-004]" in card.text
    assert "no process uses this GPU" in words


def test_a_command_that_is_the_same_for_all_stands_once_and_each_host_is_a_line() -> None:
    records = rows_of(4)
    card = render(records, condition_results=[IDLE], seen_at=records[0].proposed_at)
    command = f"```\n{approval.format_command(records[0].action)}\n```"
    assert sections(card).count(command) == 1
    for record in records:
        assert f"✋ `{record.action.target}` · *pending* `{record.digest[:16]}…`" in sections(card)
    assert "✓ no process uses this GPU" in str(card.blocks)
    assert str(card.blocks).count("no process uses this GPU") == 1
    at = {name: n for n, block in enumerate(card.blocks) for name in ("nvidia-smi", "gpu-001` ·") if name in str(block.get("text"))}
    assert at["nvidia-smi"] < at["gpu-001` ·"]


def test_a_host_whose_precondition_does_not_hold_says_so_in_its_own_row() -> None:
    first, second = rows_of(2)
    busy = ConditionResult("no process uses this GPU", False, "4711")
    card = shared_card.render_shared_card(
        [ApprovalCardView(first, GROUP, condition_results=[IDLE]), ApprovalCardView(second, GROUP, condition_results=[busy])], Brakes()
    )
    [row] = [words for words in sections(card) if "`gpu-002` ·" in words]
    assert "✗ no process uses this GPU · `4711`" in row
    assert "• no process uses this GPU" in str(card.blocks)
    assert "✗" not in next(words for words in sections(card) if "`gpu-001` ·" in words)


def test_where_two_must_approve_it_is_said_once_and_votes_are_counted_in_the_rows() -> None:
    two = ApprovalTerms(APPROVERS, 2, group="h100", group_size=60)
    first, second = (replace(record, terms=two) for record in rows_of(2))
    voted = replace(second, votes=(Vote("a", "d", f"{TEAM}:U0PRIYA", "approve", "2026-05-20T03:12:00+00:00", "x"),))
    card = render([first, voted])
    assert "*2 actions, 2 approvals each*" in str(card.blocks)
    assert "`gpu-001` · *pending* · 0 of 2 approvals" in str(card.blocks)
    assert "`gpu-002` · *pending* · 1 of 2 approvals" in str(card.blocks)


def test_each_row_offers_what_its_own_state_allows() -> None:
    states = list(State)
    records = [replace(record, state=state) for record, state in zip(rows_of(len(states)), states, strict=True)]
    card = render(records)
    for record in records:
        assert buttons_behind(card, record.action.target) == BY_STATE.get(record.state, [])
    for shown, word in ((State.EXECUTING, "running"), (State.EXPIRED, "expired"), (State.UNKNOWN, "unknown"), (State.DENIED, "rejected")):
        assert any(f"`gpu-{states.index(shown) + 1:03}` · *{word}*" in row for row in sections(card))


@pytest.mark.parametrize(
    ("changes", "held", "word"),
    [
        ({"state": State.APPROVED}, "", "approved"),
        ({"state": State.APPROVED}, "the kill switch is on", "waits"),
        ({"state": State.DONE, "exit_status": 0}, "", "ran, being verified"),
        ({"state": State.DONE, "exit_status": 0, "outcome": "passes_now"}, "", "passes now"),
        ({"state": State.DONE, "exit_status": 0, "outcome": "unchanged"}, "", "unchanged"),
        ({"state": State.FAILED, "exit_status": 4}, "", "failed"),
        ({"state": State.FAILED, "says": "a process uses the GPU"}, "", "refused"),
        ({"state": State.FAILED, "ended_by": f"{TEAM}:U0PRIYA"}, "", "failed"),
    ],
)
def test_a_row_says_in_a_word_where_its_action_stands(changes: dict[str, Any], held: str, word: str) -> None:
    first, second = rows_of(2)
    card = shared_card.render_shared_card(
        [ApprovalCardView(replace(first, **changes), GROUP, waiting_note=held), ApprovalCardView(second, GROUP)], Brakes()
    )
    assert any(f"`gpu-001` · *{word}*" in row and held in row for row in sections(card))


def test_a_precondition_that_the_host_found_otherwise_is_told_as_such() -> None:
    first, second = rows_of(2, state=State.FAILED, says="no process uses this GPU: found '4711'")
    assert "No longer true: no process uses this GPU: found '4711'" in str(render([first, second]).blocks)
    assert "No longer true" not in str(render([replace(first, says="the host went away"), replace(second, exit_status=1)]).blocks)


def test_approve_all_names_every_pending_action_with_its_whole_digest_and_no_other() -> None:
    records = rows_of(MAX_ACTIONS_PER_CARD)
    records[2] = replace(records[2], state=State.EXPIRED)
    records[3] = replace(records[3], state=State.DONE, outcome="passes_now")
    pending = [record for record in records if record.state is State.PENDING]
    [button] = [
        e
        for b in render(records).blocks
        if b["type"] == "actions"
        for e in b["elements"]
        if e["action_id"] == approval.APPROVE_ALL_ACTION_ID
    ]
    click = approval.parse_card_click({"actions": [button]})
    assert click.each == tuple((record.approval, record.digest) for record in pending)
    assert button["text"]["text"] == f"Approve all {len(pending)}"
    told = button["confirm"]["text"]["text"]
    assert all(record.action.target in told for record in pending) == (len(told) <= 300)
    assert "gpu-003" not in told


def test_the_dialog_folds_hosts_that_would_not_fit_and_never_cuts_one() -> None:
    long = [
        replace(row, action=replace(row.action, target=f"h200-rack-07-row-b-{row.action.target}")) for row in rows_of(MAX_ACTIONS_PER_CARD)
    ]
    told = str(shared_card._format_dialog_text(long))
    assert "h200-rack-07-row-b-gpu-[001-010]" in told
    far = [replace(row, action=replace(row.action, target=f"{'x' * 90}{n}y{n * 7}z")) for n, row in enumerate(long)]
    told = shared_card._format_dialog_text(far)
    assert "xx" not in told


def test_approve_all_is_missing_without_approvers_or_for_one_action() -> None:
    one_left = [rows_of(2)[0], replace(rows_of(2)[1], state=State.DENIED)]
    nobody = [replace(record, terms=ApprovalTerms(frozenset(), 1)) for record in rows_of(3)]
    for records in (one_left, nobody):
        assert approval.APPROVE_ALL_ACTION_ID not in str(render(records).blocks)
    assert card_parts.NOBODY_MAY_APPROVE_TEXT in str(render(nobody).blocks)


def test_the_card_shows_the_brakes_before_a_click() -> None:
    group = ApprovalTerms(APPROVERS, 1, group="h200", group_size=8)
    words = str(render([replace(record, terms=group) for record in rows_of(6)]).blocks)
    for brake in (("1 host of `h200`",), ("3 hosts of h200", "10 min", "breaker"), ("4 hosts", "60 min")):
        assert [line for line in words.split("⚠") if all(part in line for part in brake)], brake
    ran = [replace(record, terms=group, state=state) for record, state in zip(rows_of(4), [State.DONE] * 3 + [State.PENDING], strict=True)]
    assert "breaker" in str(render(ran).blocks)
    over = [replace(record, state=State.DONE) for record in ran]
    assert "breaker" not in str(render(over).blocks)
    few = str(render([replace(record, terms=group) for record in rows_of(3)]).blocks)
    assert "breaker" not in few


@given(st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE, STATES), min_size=2, max_size=MAX_ACTIONS_PER_CARD), st.booleans())
@settings(max_examples=80)
def test_rows_that_may_share_a_card_are_whole_on_it_and_the_card_fits(rows: list[tuple[str, str, str, State]], voted: bool) -> None:
    made = [
        record_of(
            target=host, via=host, command=("nvidia-smi", "-i", word), args={"bdf": word}, says=says, state=state, approval=f"apr-{n}"
        )
        for n, (host, word, says, state) in enumerate(rows)
    ]
    votes = (Vote("a", "d", f"{TEAM}:U0PRIYA", "approve", "2026-05-20T03:12:00+00:00", "x", made[0].says[:400]),) if voted else ()
    kept = within(made, votes)
    if len(kept) < 2:
        return
    seen = [ConditionResult(kept[0].says or "idle", None, kept[0].says)] * 4
    queued = queued_hosts.QueuedHosts(50, len(kept), 9, "failed", tuple(record.action.target for record in kept))
    shown = [
        ApprovalCardView(record, GROUP, {}, seen, record.proposed_at, record.proposed_at, record.says, [], record.says, queued)
        for record in kept
    ]
    card = shared_card.render_shared_card(shown, Brakes())
    assert is_safe(card)
    assert fits(card)
    words = sections(shared_card.render_shared_card(shown, Brakes()))
    for record in kept:
        ran = unescaped(text.exact_code_block(approval.format_command(record.action)))
        [row] = [one for one in words if f"`{text.escape_ambiguous(record.action.target)}`" in one and f"`{record.digest[:16]}…`" in one]
        assert ran in row or (ran in words and len({approval.format_command(other.action) for other in kept}) == 1)
    assert not find_view_problems(view := modals.render_all_actions(kept))
    assert all(any(record.digest in said for said in strings(view["blocks"])) for record in kept)


def within(made: list[ActionRecord], votes: tuple[Vote, ...]) -> list[ActionRecord]:
    """Return the first records that fit one card, with these votes."""
    kept, used = list[ActionRecord](), 0
    for record in made:
        if used + (size := action_row.count_row_chars(record.action)) <= action_row.MAX_ROWS_CHARS:
            kept, used = [*kept, replace(record, votes=votes)], used + size
    return kept


def test_ten_ordinary_actions_share_one_card() -> None:
    clocks = ("sh", "-c", 'nvidia-smi -i "$1" -rgc && nvidia-smi -i "$1" -rac', "reset-clocks", "0000:9b:00.0")
    for command in (clocks, ("systemctl", "restart", "nvidia-fabricmanager.service"), ("nvidia-smi", "-pl", "700")):
        records = rows_of(MAX_ACTIONS_PER_CARD, command=command)
        assert sum(action_row.count_row_chars(record.action) for record in records) <= action_row.MAX_ROWS_CHARS
        card = render(records, condition_results=[ConditionResult("idle", False, "4711 " * 100)] * 3, warning="w" * 1000)
        assert fits(card)
        assert sum(map(count_text_chars, card.blocks)) <= 12_000
        assert approval.APPROVE_ALL_ACTION_ID in str(card.blocks)


@given(st.lists(HOSTILE, min_size=2, max_size=6))
@settings(max_examples=60)
def test_every_button_comes_back_with_the_action_of_its_own_row(hosts: list[str]) -> None:
    made = within([record_of(target=host, via=host, command=("true",), approval=f"apr-{n}") for n, host in enumerate(hosts)], ())
    if len(made) < 2:
        return
    card = render(made)
    places = [n for n, block in enumerate(card.blocks) if block["type"] == "actions"]
    assert all(card.blocks[place - 1]["type"] in ("section", "context") for place in places)
    known = {record.approval: record.digest for record in made}
    for block in (card.blocks[place] for place in places):
        for element in block["elements"]:
            click = approval.parse_card_click({"actions": [element]})
            assert known[click.approval] == click.digest
            assert all(known[name] == digest for name, digest in click.each)
    rows = [card.blocks[place]["elements"][0]["value"] for place in places[:-1]]
    assert all(one != other for one, other in pairwise(rows))


@pytest.mark.parametrize(
    "value",
    ["{}", '{"each":[]}', '{"each":[["apr-1"]]}', '{"each":[["apr-1","short"]]}', '{"approval":"apr-1","digest":"x"}', "[]", "7"],
)
def test_a_broken_click_about_several_is_stale(value: str) -> None:
    with pytest.raises(StaleCard):
        approval.parse_card_click({"actions": [{"action_id": approval.APPROVE_ALL_ACTION_ID, "value": value}]})
    many = json.dumps({"each": [[f"apr-{n}", "0" * 64] for n in range(approval.MAX_ACTIONS_PER_BUTTON + 1)]})
    with pytest.raises(StaleCard):
        approval.parse_card_click({"actions": [{"action_id": approval.APPROVE_ALL_ACTION_ID, "value": many}]})


def test_a_press_on_all_tells_what_counted_and_for_each_other_why_not() -> None:
    records = rows_of(9, state=State.APPROVED)
    votes = [VoteResult(record.approval, record) for record in records[:6]]
    votes += [
        VoteResult("apr-x", records[6], refusals.TooLate()),
        VoteResult("apr-y", records[7], refusals.OwnRequest("yours")),
    ]
    votes += [VoteResult("apr-z", replace(records[8], state=State.DENIED), refusals.NotOpen("It is denied."))]
    card = vote_summary.render_vote_summary(votes)
    assert card.text == "6 approved, 1 expired, 1 requested by you, 1 already denied"
    words = str(card.blocks)
    for host in ("gpu-007", "gpu-008", "gpu-009"):
        assert f"`{host}`" in words
    assert "gpu-001" not in words


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ([{}, {"state": State.APPROVED}], "✋ Approve 1?"),
        ([{"state": State.UNKNOWN}, {"state": State.EXECUTING}], "❓ 1 in doubt"),
        ([{"state": State.EXECUTING}, {"state": State.APPROVED}], "🔧 Running 1 of 2"),
        ([{"state": State.DONE}, {"state": State.DENIED}], "🔎 Ran, being verified"),
        ([{"state": State.DONE, "outcome": "passes_now"}] * 2, "✅ All 2 pass now"),
        ([{"state": State.DONE, "outcome": "passes_now"}, {"state": State.EXPIRED}], "🟡 1 of 2 pass now"),
        ([{"state": State.DONE, "outcome": "cured"}, {"state": State.DONE, "outcome": "passes_now"}], "✅ All 2 well"),
        ([{"state": State.EXPIRED}, {"state": State.DENIED}], "🚫 None of 2 was run"),
        ([{"state": State.DENIED}] * 2, "🚫 Both rejected"),
        ([{"state": State.FAILED, "exit_status": 1}] * 2, "❌ Both failed"),
        ([{"state": State.FAILED, "exit_status": 1}, {"state": State.DENIED}], "❌ None of 2 worked"),
        ([{"state": State.FAILED, "exit_status": 1, "outcome": "passes_now"}] * 2, "✅ All 2 well"),
    ],
)
def test_the_headline_says_what_most_wants_eyes(changes: list[dict[str, Any]], begins: str) -> None:
    records = [replace(record, **more) for record, more in zip(rows_of(2), changes, strict=True)]
    assert render(records).text.startswith(begins)
