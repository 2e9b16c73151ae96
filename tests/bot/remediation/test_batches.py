"""Shared approval cards: which actions share one, and that a click votes for each shown action and for no other."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bot.remediation.action_cards import MAX_ACTIONS_PER_CARD, ActionCards, CardBatches, CardPostInProgress
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import modals
from bot.slack.posted_messages import PostedCards
from graph.state import IncidentState
from tests.support.fakes_approvals import APPROVERS, Ward, ward
from tests.support.fakes_bot import OPS, TEAM, living_messages
from tests.support.fakes_ledger import CATALOGUE, POLICY, action, expire_due
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.states import State, Transition

pytestmark = pytest.mark.slow


CALLED = "<!subteam^S0GPUAPPR>"


@pytest.fixture
async def place() -> AsyncIterator[Ward]:
    async with ward() as made:
        yield made


async def put_up(place: Ward, hosts: int | Sequence[str] = 3, *, quorum: int = 1, **changes: Any) -> list[ActionRecord]:
    """Propose one remedy for several hosts, all before the first card is posted, as a diagnosis does."""
    names = [f"gpu-{n:03}" for n in range(1, hosts + 1)] if isinstance(hosts, int) else hosts
    terms = ApprovalTerms(approvers=APPROVERS, quorum=quorum, group="h100", group_size=100)
    made = [action(target=host, via=host, devices=(), incident=place.incident, **changes) for host in names]
    records = [await place.ledger.propose(one, terms) for one in made]
    await asyncio.gather(*(place.cards.post_approval_card(record, IncidentState()) for record in records))
    return records


def cards(place: Ward) -> list[dict[str, Any]]:
    return [m for m in place.said() if ((m.get("metadata") or {}).get("event_payload") or {}).get("what") == "card"]


def row(card: dict[str, Any], host: str) -> str:
    [found] = [b["text"]["text"] for b in card["blocks"] if b["type"] == "section" and f"`{host}` · *" in b["text"]["text"]]
    return str(found)


async def press(place: Ward, user: str, button: str, record: ActionRecord | None = None, card: dict[str, Any] | None = None) -> None:
    """Click a button of the first card, or of a row on it."""
    value = approval.encode_action(record) if record else None
    await place.bot.slack.acts.click(user, str((card or cards(place)[0])["ts"]), button, value=value)
    await place.bot.settled()


def sent(place: Ward) -> dict[str, Any]:
    """Return the payload of the latest click as the bot received it."""
    return copy.deepcopy([envelope["payload"] for envelope in place.bot.slack.hub.sent if envelope["type"] == "interactive"][-1])


async def send(place: Ward, payload: dict[str, Any]) -> None:
    await place.bot.slack.hub.ask("interactive", payload)
    await place.bot.settled()


async def states(place: Ward, records: Sequence[ActionRecord]) -> list[State]:
    return [await place.state(record) for record in records]


async def test_one_remedy_for_three_hosts_is_one_message_that_calls_once(place: Ward) -> None:
    records = await put_up(place)
    [card] = cards(place)
    words = json.dumps(card["blocks"], ensure_ascii=False)
    assert words.count(CALLED) == 1
    assert "gpu-[001-003]" in card["text"]
    for record in records:
        assert record.digest[:16] in row(card, record.action.target)
        assert "*pending*" in row(card, record.action.target)
    assert len([m for m in place.said() if m.get("metadata")]) == 1


async def test_one_press_is_a_vote_for_each_by_its_own_digest(place: Ward) -> None:
    records = await put_up(place)
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID)
    for record in records:
        after = await place.ledger.get_record(record.approval)
        [vote] = after.votes
        assert (after.state, vote.voter, vote.digest) == (State.APPROVED, f"{TEAM}:U0PRIYA", record.digest)
        assert "*approved*" in row(cards(place)[0], record.action.target)
    assert len({(await place.ledger.get_record(r.approval)).votes[0].delivery for r in records}) == 3
    assert place.whispered("priya") == ""
    entries = [json.loads(line) async for line in place.ledger.export_audit()]
    assert [entry["event"] for entry in entries].count("vote_approve") == 3


async def test_a_row_is_approved_and_rejected_by_itself(place: Ward) -> None:
    first, second, third = await put_up(place)
    await press(place, "priya", approval.APPROVE_ACTION_ID, second)
    assert await states(place, [first, second, third]) == [State.PENDING, State.APPROVED, State.PENDING]
    await press(place, "anton", approval.REJECT_ACTION_ID, third)
    view = place.bot.slack.view("anton")
    assert view
    await place.bot.slack.submit("anton", view["id"], {modals.REASON_BLOCK_ID: "in use for a demo"})
    await place.bot.settled()
    assert await states(place, [first, second, third]) == [State.PENDING, State.APPROVED, State.DENIED]
    assert "*anton* rejected it: in use for a demo" in row(cards(place)[0], "gpu-003")
    assert approval.APPROVE_ALL_ACTION_ID not in str(cards(place)[0]["blocks"])


async def test_what_did_not_count_is_told_host_by_host(place: Ward) -> None:
    records = await put_up(place, 7)
    mine = await place.ask(action(target="gpu-050", via="gpu-050", requested_by=f"{TEAM}:U0PRIYA"))
    await press(place, "olga", approval.SHOW_ALL_ACTION_ID)
    old = sent(place)
    await place.ledger.end_action(records[6].approval, Transition.REVOKE, "rackmedic", "healed by itself")
    old["user"] |= {"id": "U0PRIYA"}
    each = [[record.approval, record.digest] for record in [*records, mine]]
    old["actions"][0] |= {"action_id": approval.APPROVE_ALL_ACTION_ID, "value": json.dumps({"each": each})}
    await send(place, old)
    assert "6 approved, 1 already revoked, 1 requested by you" in place.whispered("priya")
    assert await states(place, records) == [State.APPROVED] * 6 + [State.REVOKED]
    assert await place.state(mine) is State.PENDING


async def test_a_digest_that_is_not_the_one_shown_counts_for_nothing_and_harms_no_other(place: Ward) -> None:
    records = await put_up(place)
    await press(place, "olga", approval.SHOW_ALL_ACTION_ID)
    payload = sent(place)
    payload["user"] |= {"id": "U0PRIYA"}
    each = [[records[0].approval, records[1].digest], [records[1].approval, records[1].digest], ["apr-gone", "0" * 64]]
    payload["actions"][0] |= {"action_id": approval.APPROVE_ALL_ACTION_ID, "value": json.dumps({"each": each})}
    await send(place, payload)
    assert await states(place, records) == [State.PENDING, State.APPROVED, State.PENDING]
    assert "1 approved, 1 changed since, 1 gone" in place.whispered("priya")


async def test_two_simultaneous_clicks_are_two_voters_counted_once_each(place: Ward) -> None:
    records = await put_up(place, quorum=2)
    ts = str(cards(place)[0]["ts"])
    await asyncio.gather(*(place.bot.slack.acts.click(who, ts, approval.APPROVE_ALL_ACTION_ID) for who in ("priya", "anton", "priya")))
    await place.bot.settled()
    for record in records:
        after = await place.ledger.get_record(record.approval)
        assert (after.state, frozenset(vote.voter for vote in after.votes)) == (State.APPROVED, APPROVERS)
    told = place.whispered("priya")
    assert "you had approved before" in told or "already approved" in told


async def test_one_of_two_who_press_at_once_is_told_that_it_was_approved_already(place: Ward) -> None:
    records = await put_up(place)
    ts = str(cards(place)[0]["ts"])
    await asyncio.gather(*(place.bot.slack.acts.click(who, ts, approval.APPROVE_ALL_ACTION_ID) for who in ("priya", "anton")))
    await place.bot.settled()
    assert [(await place.ledger.get_record(record.approval)).approvals for record in records] == [1, 1, 1]
    told = place.whispered("priya") + place.whispered("anton")
    assert "already approved" in told


async def test_a_replayed_press_changes_nothing(place: Ward) -> None:
    await put_up(place, quorum=2)
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID)
    before = await place.dump()
    await send(place, sent(place))
    assert await place.dump() == before
    assert "3 received before" in place.whispered("priya")


async def test_an_old_card_approves_what_still_waits_and_says_what_does_not(place: Ward) -> None:
    records = await put_up(place)
    stale = copy.deepcopy(cards(place)[0])
    await place.ledger.end_action(records[1].approval, Transition.SUPERSEDE, "rackmedic", "a reboot covers it")
    await place.cards.update_card(records[1])
    assert "a reboot covers it" in row(cards(place)[0], "gpu-002")
    assert "Approve all 2" in str(cards(place)[0]["blocks"])
    value = [
        e["value"]
        for b in stale["blocks"]
        if b["type"] == "actions"
        for e in b["elements"]
        if e["action_id"] == approval.APPROVE_ALL_ACTION_ID
    ]
    await press(place, "priya", approval.SHOW_ALL_ACTION_ID)
    payload = sent(place)
    payload["actions"][0] |= {"action_id": approval.APPROVE_ALL_ACTION_ID, "value": value[0]}
    await send(place, payload)
    assert await states(place, records) == [State.APPROVED, State.SUPERSEDED, State.APPROVED]
    assert "2 approved, 1 already superseded" in place.whispered("priya")


async def test_who_joined_after_the_card_was_painted_is_not_approved_by_it(place: Ward) -> None:
    shown = await put_up(place, ["gpu-001", "gpu-002"])
    old = copy.deepcopy(cards(place)[0])
    place.clock.go(seconds=60)
    late = await put_up(place, ["gpu-003"])
    [card] = cards(place)
    assert "Approve all 3" in str(card["blocks"])
    value = [
        e["value"]
        for b in old["blocks"]
        if b["type"] == "actions"
        for e in b["elements"]
        if e["action_id"] == approval.APPROVE_ALL_ACTION_ID
    ]
    await press(place, "priya", approval.SHOW_ALL_ACTION_ID)
    payload = sent(place)
    payload["actions"][0] |= {"action_id": approval.APPROVE_ALL_ACTION_ID, "value": value[0]}
    await send(place, payload)
    assert await states(place, [*shown, *late]) == [State.APPROVED, State.APPROVED, State.PENDING]


async def test_a_press_after_the_time_is_over_counts_for_none(place: Ward) -> None:
    records = await put_up(place)
    place.clock.go(seconds=901)
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID)
    assert await states(place, records) == [State.PENDING] * 3
    assert "3 expired" in place.whispered("priya")
    for record in await expire_due(place.ledger):
        await place.cards.update_card(record)
    assert str(cards(place)[0]["blocks"]).count(approval.ASK_AGAIN_ACTION_ID) == 3


async def test_a_person_outside_the_group_approves_none_of_them(place: Ward) -> None:
    await put_up(place)
    before = await place.dump()
    await press(place, "olga", approval.APPROVE_ALL_ACTION_ID)
    assert await place.dump() == before
    assert "not among the approvers" in place.whispered("olga")


async def test_slack_is_asked_once_who_presses_however_many_there_are(place: Ward) -> None:
    await put_up(place, MAX_ACTIONS_PER_CARD)
    asked = place.bot.slack.api.calls["usergroups.users.list"]
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID)
    assert place.bot.slack.api.calls["usergroups.users.list"] - asked <= 1


async def test_an_action_within_two_minutes_joins_the_card_without_a_mention(place: Ward) -> None:
    await put_up(place, ["gpu-001"])
    assert approval.APPROVE_ALL_ACTION_ID not in str(cards(place)[0]["blocks"])
    place.clock.go(seconds=60)
    await put_up(place, ["gpu-002"])
    [card] = cards(place)
    assert "Approve all 2" in str(card["blocks"])
    assert row(card, "gpu-001")
    assert row(card, "gpu-002")
    place.clock.go(seconds=90)
    await put_up(place, ["gpu-003"])
    assert len(cards(place)) == 2
    assert CALLED in str(cards(place)[1]["blocks"])
    assert place.card((await place.ledger.list_incident_records(place.incident))[-1])


async def test_another_remedy_another_cause_and_an_edited_action_have_cards_of_their_own(place: Ward) -> None:
    await put_up(place, ["gpu-001"])
    await put_up(place, ["gpu-002"], remedy="reboot", args={}, command=("systemctl", "reboot"))
    await put_up(place, ["gpu-003"], proves="GPU.MEMORY.Broken")
    await put_up(place, ["gpu-004"], requested_by=f"{TEAM}:U0OLGA")
    assert len(cards(place)) == 4
    assert approval.APPROVE_ALL_ACTION_ID not in str([card["blocks"] for card in cards(place)])


async def test_the_same_host_again_and_what_follows_a_decided_card_have_cards_of_their_own(place: Ward) -> None:
    await put_up(place, ["gpu-001", "gpu-002"])
    await put_up(place, ["gpu-001"])
    assert len(cards(place)) == 2
    await press(place, "priya", approval.APPROVE_ACTION_ID, None, cards(place)[1])
    await put_up(place, ["gpu-003"])
    assert len(cards(place)) == 3


async def test_more_than_a_card_holds_get_another_and_each_is_on_one(place: Ward) -> None:
    records = await put_up(place, MAX_ACTIONS_PER_CARD + 3)
    first, second = sorted(cards(place), key=lambda card: -len(card["blocks"]))
    for record in records:
        on = [card for card in (first, second) if f"`{record.action.target}` · *" in str(card["blocks"])]
        assert len(on) == 1
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID, card=second)
    assert (await states(place, records)).count(State.APPROVED) == 3


async def test_an_action_with_a_very_long_command_has_a_card_of_its_own(place: Ward) -> None:
    await put_up(place, ["gpu-001"], command=("nvidia-smi", "-i", "9" * 2900))
    await put_up(place, ["gpu-002"])
    assert len(cards(place)) == 2


async def test_two_processes_that_join_at_the_same_moment_agree(place: Ward) -> None:
    terms = ApprovalTerms(approvers=APPROVERS, quorum=1, group="h100", group_size=100)
    made = [action(target=f"gpu-{n:03}", via=f"gpu-{n:03}", incident=place.incident) for n in range(6)]
    records = [await place.ledger.propose(one, terms) for one in made]
    here, there = CardBatches(PostedCards(place.bot.redis)), CardBatches(PostedCards(place.bot.redis))
    now = place.clock.now()
    joined = await asyncio.gather(
        *(side.join_batch(record, records[: n + 1], now) for n, record in enumerate(records) for side in (here, there))
    )
    assert len(set(joined)) == 1
    assert sorted(await here.list_approvals(place.incident, joined[0])) == sorted(record.approval for record in records)


async def test_two_processes_that_show_at_the_same_moment_post_one_card(place: Ward) -> None:
    terms = ApprovalTerms(approvers=APPROVERS, quorum=1, group="h100", group_size=100)
    made = [action(target=f"gpu-{n:03}", via=f"gpu-{n:03}", incident=place.incident) for n in range(4)]
    records = [await place.ledger.propose(one, terms) for one in made]
    context, posted = place.bot.context, PostedCards(place.bot.redis)
    living = living_messages(context.client, place.bot.redis, context.people, context.inbox.get_origin, place.clock, context.tasks)
    other = ActionCards(context.client, posted, context.people, place.cards.sources, living)
    sides = [place.cards, other]
    shown = await asyncio.gather(
        *(sides[n % 2].post_approval_card(record, IncidentState()) for n, record in enumerate(records)), return_exceptions=True
    )
    assert all(why is None or isinstance(why, CardPostInProgress) for why in shown)
    for side in sides:  # as the driver repeats it
        for record in records:
            await side.post_approval_card(record, IncidentState())
    [card] = cards(place)
    assert all(f"`{record.action.target}` · " in str(card["blocks"]) for record in records)


async def test_only_one_process_posts_the_card(place: Ward) -> None:
    terms = ApprovalTerms(approvers=APPROVERS, quorum=1, group="h100", group_size=100)
    made = [action(target=f"gpu-{n:03}", via=f"gpu-{n:03}", incident=place.incident) for n in range(2)]
    first, second = [await place.ledger.propose(one, terms) for one in made]
    theirs = PostedCards(place.bot.redis)
    batch = await CardBatches(theirs).join_batch(first, [first, second], place.clock.now())
    async with theirs.hold_lock(place.incident, f"card:{batch}") as alone:
        assert alone
        assert await theirs.claim(place.incident, f"card:{batch}") == ""
        with pytest.raises(CardPostInProgress):
            await place.cards.post_approval_card(second, IncidentState())
        assert cards(place) == []
    await place.cards.post_approval_card(second, IncidentState())
    [card] = cards(place)
    assert "Approve all 2" in str(card["blocks"])


async def test_a_card_that_another_process_posted_meanwhile_is_brought_up_to_date(place: Ward) -> None:
    [first, *_] = await put_up(place, ["gpu-001"])
    [card] = cards(place)
    batch = card["metadata"]["event_payload"]["approval"]
    second = await place.ledger.propose(
        action(target="gpu-002", via="gpu-002", incident=place.incident),
        ApprovalTerms(approvers=APPROVERS, quorum=1, group="h100", group_size=100),
    )
    assert await CardBatches(PostedCards(place.bot.redis)).join_batch(second, [first, second], place.clock.now()) == batch == first.approval
    await place.cards.update_card(first)
    assert "Approve all 2" in str(cards(place)[0]["blocks"])


async def test_why_each_waits_and_how_each_ended_is_on_its_row(place: Ward) -> None:
    first, second, third, fourth = await put_up(place, 4)
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID)
    await run(place, first, "passes_now")
    claim = await place.ledger.claim(second.approval, second.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=APPROVERS)
    await place.cards.show_wait_reason(third, "as many hosts of this group are being changed as may be at once")
    await place.ledger.end_action(
        fourth.approval, Transition.SUPERSEDE, "rackmedic", "not so any more: no process uses this GPU (it says '4711')"
    )
    await place.cards.post_outcome(fourth)
    [card] = cards(place)
    assert card["text"].startswith("🔧 Running 1 of 4")
    for host, words in (
        ("gpu-001", "*passes now*"),
        ("gpu-002", "*running*"),
        ("gpu-003", "Waiting: as many hosts of this group"),
        ("gpu-004", "*refused*"),
    ):
        assert words in row(card, host)
    assert "Nothing was run" in row(card, "gpu-004")
    await place.ledger.finish(claim, "unknown", says="the host stopped answering")
    await place.cards.post_outcome(second)
    assert cards(place)[0]["text"].startswith("❓ 1 in doubt")
    assert len(told(place, "Unknown: ")) == 1
    await press(place, "anton", approval.NOT_RAN_ACTION_ID, second)
    assert await place.state(second) is State.FAILED


async def run(place: Ward, record: ActionRecord, outcome: Any, status: int = 0) -> None:
    """Claim, run and verify an approved action, and post its outcome."""
    claim = await place.ledger.claim(record.approval, record.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=APPROVERS)
    await place.ledger.finish(claim, "failed" if status else "done", exit_status=status)
    await judge(place, record, outcome)


async def judge(place: Ward, record: ActionRecord, outcome: Any) -> None:
    judged = await place.ledger.record_outcome(record.approval, outcome)
    for _ in range(2):
        await place.cards.post_outcome(judged)


def told(place: Ward, word: str) -> list[str]:
    """Return messages below the card that contain `word`."""
    return [m["text"] for m in place.said() if m["ts"] != cards(place)[0]["ts"] and word in m["text"]]


async def test_how_each_ended_is_told_on_the_card_and_nowhere_else(place: Ward) -> None:
    first, second, third = await put_up(place)
    await press(place, "priya", approval.APPROVE_ALL_ACTION_ID)
    for record, outcome in ((first, "passes_now"), (second, "unchanged"), (third, "passes_now")):
        await run(place, record, outcome)
    assert cards(place)[0]["text"].startswith("🟡 2 of 3 pass now")
    await judge(place, first, "cured")
    await judge(place, third, "cured")
    assert cards(place)[0]["text"].startswith("🟡 2 of 3 cured")
    assert len(place.said()) == 1


async def test_the_approvers_are_called_once_more_for_all_that_waits(place: Ward) -> None:
    records = await put_up(place)
    await press(place, "priya", approval.APPROVE_ACTION_ID, records[0])
    for record in records:
        await place.cards.post_reminder(record)
    [reminder] = [m for m in place.said() if "Still waiting for approval" in m["text"]]
    words = str(reminder["blocks"])
    assert words.count(CALLED) == 1
    assert "2 of 3 waiting for approval" in words
    assert "gpu-[002-003]" in words


async def test_show_all_lists_every_action_whole(place: Ward) -> None:
    records = await put_up(place, MAX_ACTIONS_PER_CARD)
    await press(place, "olga", approval.SHOW_ALL_ACTION_ID)
    view = place.bot.slack.view("olga")
    assert view
    words = json.dumps(view["blocks"], ensure_ascii=False)
    for record in records:
        assert record.digest in words
        assert f"`{record.action.target}`" in words
    assert "more parts of this card" not in words


async def test_a_channel_that_became_shared_shows_none_of_them(place: Ward) -> None:
    records = await put_up(place)
    ts = cards(place)[0]["ts"]
    place.bot.slack.share(OPS)
    place.bot.context.people.forget(OPS)
    await place.cards.update_card(records[0])
    [card] = [m for m in place.said() if m["ts"] == ts]
    assert "gpu-001" not in str(card["blocks"])


async def test_a_forged_record_is_left_out_and_the_others_stay(place: Ward) -> None:
    records = await put_up(place)
    await place.bot.redis.hset(f"rm:ledger:apr:{records[1].approval}", "mac", "0" * 64)
    await place.cards.update_card(records[0])
    [card] = cards(place)
    assert "gpu-002" not in str(card["blocks"])
    assert "Approve all 2" in str(card["blocks"])


async def test_a_card_that_was_posted_before_a_crash_is_found_and_not_posted_again(place: Ward) -> None:
    records = await put_up(place)
    [card] = cards(place)
    batch = card["metadata"]["event_payload"]["approval"]
    await place.bot.redis.hset(f"rm:incident:{{{place.incident}}}:cards", f"card:{batch}", "posting")
    await place.cards.update_card(replace(records[2]))
    assert len(cards(place)) == 1
