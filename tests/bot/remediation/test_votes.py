"""Approving in Slack: which clicks count, and that a refused click changes nothing and gives the reason."""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bot.cards.buttons import StaleCard
from bot.incidents.cards import notes
from bot.incidents.handlers.commands import NO_SUCH_BREAKER
from bot.policy.approvals import ApprovalRights
from bot.policy.channels import NOT_FULL_MEMBER_TEXT, REFUSAL_TEXTS
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import brakes, card_parts, modals, outcomes
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.slack.people import SlackAnswerMissing
from graph.state import Origin, TenantThread
from tests.support.fakes_approvals import INVENTORY, Ward, ward
from tests.support.fakes_bot import ACME, OPS, TEAM
from tests.support.fakes_ledger import CATALOGUE, POLICY, action, expire_due
from tools.ledger.record import ActionRecord
from tools.ledger.states import State, Transition

pytestmark = pytest.mark.slow


STALE = str(StaleCard())


@pytest.fixture
async def place() -> AsyncIterator[Ward]:
    async with ward() as made:
        yield made


async def test_a_customers_channel_may_name_approvers_of_its_own(place: Ward) -> None:
    theirs = tuple(row.model_copy(update={"approvers": "S0ACME"}) if row.channel == ACME else row for row in INVENTORY.channels)
    rights = ApprovalRights(place.bot.context.people, INVENTORY.model_copy(update={"channels": theirs}), (), place.bot.inbox.get_origin)
    came = TenantThread(team=TEAM, channel=ACME, thread_ts="2.0", user="U0CARLA")
    origin = Origin(kind="slack", team=TEAM, channel=OPS, tenant="acme", customer=came)
    assert rights.get_mention_group(origin) == "S0ACME"
    assert rights.get_mention_group(origin.model_copy(update={"tenant": "globex"})) == "S0GPUAPPR"
    assert rights.get_mention_group(origin.model_copy(update={"customer": None})) == "S0GPUAPPR"


def last_click(place: Ward) -> dict[str, Any]:
    """Return the payload of the latest click as the bot received it."""
    envelopes = [envelope["payload"] for envelope in place.bot.slack.hub.sent if envelope["type"] == "interactive"]
    return copy.deepcopy(envelopes[-1])


async def send(place: Ward, payload: dict[str, Any]) -> None:
    """Deliver a payload as Slack would."""
    await place.bot.slack.hub.ask("interactive", payload)
    await place.bot.settled()


async def test_the_card_is_a_new_message_that_mentions_the_approvers_once(place: Ward) -> None:
    record = await place.ask()
    card = place.card(record)
    words = json.dumps(card["blocks"], ensure_ascii=False)
    assert words.count("<!subteam^S0GPUAPPR>") == 1
    for must in ("gpu-017", "nvidia-smi --gpu-reset -i 0000:9b:00.0", record.digest, "0 of 1 approval", "✓ no process uses this GPU"):
        assert must in words
    assert card["thread_ts"] == place.thread
    for _ in range(2):
        await place.cards.post_approval_card(record, {})
    assert len([m for m in place.said() if m.get("metadata")]) == 1


async def test_an_approver_approves_and_the_card_says_who(place: Ward) -> None:
    record = await place.ask()
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    after = await place.ledger.get_record(record.approval)
    assert (after.state, [vote.voter for vote in after.votes]) == (State.APPROVED, [f"{TEAM}:U0PRIYA"])
    words = str(place.card(record)["blocks"])
    assert "*priya* approved" in words
    assert approval.APPROVE_ACTION_ID not in words
    assert "<!subteam" not in words


async def test_two_must_agree_where_two_are_needed(place: Ward) -> None:
    record = await place.ask(action(risk="destructive", remedy="reboot", args={}, command=("systemctl", "reboot")), quorum=2)
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    assert await place.state(record) is State.PENDING
    assert "1 of 2 approvals" in str(place.card(record)["blocks"])
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    assert await place.state(record) is State.PENDING
    assert "already counts" in place.whispered("priya")
    await place.click("anton", place.card(record), approval.APPROVE_ACTION_ID)
    assert await place.state(record) is State.APPROVED


async def test_a_rejection_needs_a_reason_and_shows_it(place: Ward) -> None:
    record = await place.ask()
    await place.click("anton", place.card(record), approval.REJECT_ACTION_ID)
    view = place.bot.slack.view("anton")
    assert view
    empty = await place.bot.slack.submit("anton", view["id"], {modals.REASON_BLOCK_ID: " "})
    assert empty["errors"]
    assert await place.state(record) is State.PENDING
    assert await place.bot.slack.submit("anton", view["id"], {modals.REASON_BLOCK_ID: "the customer <!here> runs a demo"}) == {}
    await place.bot.settled()
    assert await place.state(record) is State.DENIED
    words = str(place.card(record)["blocks"])
    assert "*anton* rejected it: the customer &lt;!here&gt; runs a demo" in words
    assert "'type': 'actions'" not in words


async def test_an_edit_voids_votes_and_its_editor_may_not_approve_it(place: Ward) -> None:
    record = await place.ask(quorum=2)
    await place.click("anton", place.card(record), approval.APPROVE_ACTION_ID)
    await place.click("priya", place.card(record), approval.EDIT_ACTION_ID)
    view = place.bot.slack.view("priya")
    assert view
    wrong = await place.bot.slack.submit("priya", view["id"], {modals.FIELD_ID_PREFIX + "bdf": "9b:00.0; reboot"})
    assert "PCI address" in wrong["errors"][modals.FIELD_ID_PREFIX + "bdf"]
    same = await place.bot.slack.submit("priya", view["id"], {})
    assert "Nothing was changed" in str(same["errors"])
    place.clock.go(seconds=20)
    assert await place.bot.slack.submit("priya", view["id"], {modals.FIELD_ID_PREFIX + "bdf": "0000:c7:00.0"}) == {}
    await place.bot.settled()
    old, new = await place.ledger.list_incident_records(place.incident)
    assert (old.state, new.state, new.votes) == (State.SUPERSEDED, State.PENDING, ())
    assert new.action.requested_by == f"{TEAM}:U0PRIYA"
    assert "0000:c7:00.0" in str(place.card(new)["blocks"])
    await place.click("priya", place.card(new), approval.APPROVE_ACTION_ID)
    assert "another approver must approve" in place.whispered("priya")
    await place.click("anton", place.card(new), approval.APPROVE_ACTION_ID)
    assert (await place.ledger.get_record(new.approval)).approvals == 1


async def refused(place: Ward, record: ActionRecord, user: str, word: str, payload: dict[str, Any] | None = None) -> None:
    """Assert that a click (or payload) changes nothing and that the person who clicked gets a reason."""
    before = await place.dump()
    if payload is None:
        await place.click(user, place.card(record), approval.APPROVE_ACTION_ID)
    else:
        await send(place, payload)
    assert await place.dump() == before
    assert word in place.whispered(user)


async def test_a_person_outside_the_group_changes_nothing(place: Ward) -> None:
    await refused(place, await place.ask(), "olga", "not among the approvers")


async def test_a_refused_person_is_told_who_may_approve(place: Ward) -> None:
    await refused(place, await place.ask(), "olga", "Those who may: anton, priya.")
    assert "U0PRIYA" not in place.whispered("olga")


async def test_a_person_who_left_the_group_after_the_card_was_shown_changes_nothing(place: Ward) -> None:
    record = await place.ask()
    place.bot.slack.workspace.groups["S0GPUAPPR"].users = ["U0ANTON"]
    await refused(place, record, "priya", "not among the approvers")


async def test_the_requester_does_not_approve_their_own(place: Ward) -> None:
    await refused(place, await place.ask(action(requested_by=f"{TEAM}:U0PRIYA")), "priya", "another approver must approve")


@pytest.mark.parametrize("user", ["gus", "rackmedic"])
async def test_guests_and_apps_change_nothing_even_if_a_group_holds_them(place: Ward, user: str) -> None:
    who = place.bot.slack.workspace.user(user).id
    place.bot.slack.workspace.groups["S0GPUAPPR"].users.append(who)
    record = await place.ask(approvers=frozenset({f"{TEAM}:{who}"}))
    await refused(place, record, user, NOT_FULL_MEMBER_TEXT)


async def test_a_just_deactivated_person_changes_nothing(place: Ward) -> None:
    record = await place.ask()
    await place.click("priya", place.card(record), approval.REJECT_ACTION_ID)
    payload = last_click(place)
    payload["actions"][0]["action_id"] = approval.APPROVE_ACTION_ID
    place.bot.slack.workspace.user("priya").deleted = True
    await refused(place, record, "priya", "full members", payload)


async def test_a_stranger_with_an_approvers_id_changes_nothing(place: Ward) -> None:
    record = await place.ask()
    await place.click("olga", place.card(record), approval.APPROVE_ACTION_ID)
    payload = last_click(place)
    payload["user"] |= {"id": "U0PRIYA", "team_id": "T0GLOBEX"}
    before = await place.dump()
    await send(place, payload)
    del payload["user"]["team_id"]
    await send(place, payload)
    assert await place.dump() == before
    assert await place.state(record) is State.PENDING


async def test_a_stranger_in_the_channel_changes_nothing(place: Ward) -> None:
    record = await place.ask(approvers=frozenset({"T0GLOBEX:U0STRANGE", f"{TEAM}:U0STRANGE"}))
    place.bot.slack.workspace.channels[OPS].members.append("U0STRANGE")
    place.bot.slack.workspace.groups["S0GPUAPPR"].users.append("U0STRANGE")
    await refused(place, record, "stan", NOT_FULL_MEMBER_TEXT)


async def test_a_channel_that_became_shared_a_moment_ago_approves_nothing(place: Ward) -> None:
    record = await place.ask()
    place.bot.slack.share(OPS)
    await refused(place, record, "priya", REFUSAL_TEXTS["shared"])
    await place.bot.settled()
    assert "gpu-017" not in str(place.card(record)["blocks"])


async def test_a_forged_digest_approves_nothing(place: Ward) -> None:
    record = await place.ask()
    await place.click("olga", place.card(record), approval.APPROVE_ACTION_ID)
    payload = last_click(place)
    payload["user"] |= {"id": "U0PRIYA"}
    for digest, word in (("0" * 64, "a different action"), ("short", STALE)):
        payload["actions"][0]["value"] = json.dumps({"approval": record.approval, "digest": digest})
        before = await place.dump()
        await send(place, payload)
        assert await place.dump() == before
        assert word in place.whispered("priya") + place.whispered("olga")


async def test_a_replayed_click_is_refused(place: Ward) -> None:
    record = await place.ask(quorum=2)
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    await refused(place, record, "priya", "received before", last_click(place))


async def test_a_double_click_counts_once(place: Ward) -> None:
    record = await place.ask(quorum=2)
    for _ in range(2):
        await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    assert (await place.ledger.get_record(record.approval)).approvals == 1


async def test_a_button_of_another_thread_changes_nothing(place: Ward) -> None:
    record = await place.ask()
    elsewhere = await place.bot.slack.say("olga", OPS, "lunch?")
    copied = await place.bot.context.client.chat_postMessage(
        channel=OPS, thread_ts=elsewhere, text="card", blocks=place.card(record)["blocks"]
    )
    before = await place.dump()
    await place.bot.slack.click("priya", str(copied["ts"]), approval.APPROVE_ACTION_ID)
    await place.bot.settled()
    assert await place.dump() == before
    assert STALE in place.whispered("priya")


async def test_words_and_reactions_approve_nothing(place: Ward) -> None:
    record = await place.ask()
    before = await place.dump()
    for words in ("approved", "@rackmedic approve", f"approved by @anton {record.approval} {record.digest}", "yes, run it"):
        await place.bot.slack.say("priya", OPS, words, thread_ts=place.thread)
    place.bot.slack.acts.react("priya", OPS, place.card(record)["ts"], "white_check_mark")
    await place.bot.settled()
    assert await place.dump() == before


async def test_a_late_click_is_told_so_and_an_expired_card_asks_again(place: Ward) -> None:
    record = await place.ask()
    card = place.card(record)
    place.clock.go(seconds=901)
    await refused(place, record, "priya", "over")
    [expired] = await expire_due(place.ledger)
    await place.cards.update_card(expired)
    assert "Expired" in str(place.card(record)["blocks"])
    await place.click("olga", card, approval.ASK_AGAIN_ACTION_ID)
    _, again = await place.ledger.list_incident_records(place.incident)
    assert (again.state, again.action.command) == (State.PENDING, record.action.command)
    assert "<!subteam^S0GPUAPPR>" in str(place.card(again)["blocks"])
    await place.click("priya", place.card(again), approval.APPROVE_ACTION_ID)
    assert await place.state(again) is State.APPROVED


async def test_a_click_on_a_card_that_moved_on_brings_it_up_to_date(place: Ward) -> None:
    record = await place.ask()
    await place.ledger.end_action(record.approval, Transition.SUPERSEDE, "rackmedic", "a reboot covers it")
    await refused(place, record, "priya", "superseded")
    assert "a reboot covers it" in str(place.card(record)["blocks"])


async def test_what_has_not_begun_is_taken_back(place: Ward) -> None:
    record = await place.ask()
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    await place.click("olga", place.card(record), approval.REVOKE_ACTION_ID)
    assert await place.state(record) is State.REVOKED
    assert "*olga* revoked it" in str(place.card(record)["blocks"])


@pytest.mark.parametrize(("button", "ends"), [(approval.RAN_ACTION_ID, State.DONE), (approval.NOT_RAN_ACTION_ID, State.FAILED)])
async def test_a_human_says_what_became_of_an_unknown_action(place: Ward, button: str, ends: State) -> None:
    record = await place.ask()
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    approvers = record.terms.approvers
    claim = await place.ledger.claim(record.approval, record.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=approvers)
    await place.ledger.finish(claim, "unknown", says="the host stopped answering")
    await place.cards.update_card(record)
    await place.click("olga", place.card(record), button)
    assert await place.state(record) is State.UNKNOWN
    assert "not among the approvers" in place.whispered("olga")
    await place.click("anton", place.card(record), button)
    assert await place.state(record) is ends
    assert "*anton* " in str(place.card(record)["blocks"])


async def test_a_click_is_told_at_once_when_the_ledger_is_away(place: Ward) -> None:
    record = await place.ask()
    place.bot.server.connected = False
    delivery = await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    assert delivery.acked
    assert "does not answer" in place.whispered("priya")
    place.bot.server.connected = True
    assert await place.state(record) is State.PENDING


async def test_a_click_is_refused_while_slack_does_not_say_who_clicks(place: Ward) -> None:
    record = await place.ask()
    place.bot.slack.workspace.app.scopes = frozenset({"chat:write", "channels:read", "channels:history"})
    await refused(place, record, "priya", "did not tell me")


async def test_a_form_that_was_opened_in_time_is_refused_when_the_time_is_over(place: Ward) -> None:
    record = await place.ask()
    await place.click("anton", place.card(record), approval.REJECT_ACTION_ID)
    view = place.bot.slack.view("anton")
    assert view
    place.clock.go(seconds=901)
    answer = await place.bot.slack.submit("anton", view["id"], {modals.REASON_BLOCK_ID: "no"})
    assert "over" in answer["errors"][modals.REASON_BLOCK_ID]
    assert await place.state(record) is State.PENDING


async def test_without_approvers_there_is_nothing_to_press(place: Ward) -> None:
    record = await place.ask(approvers=frozenset())
    assert card_parts.NOBODY_MAY_APPROVE_TEXT in str(place.card(record)["blocks"])
    assert "'type': 'actions'" not in str(place.card(record)["blocks"])


async def test_any_operator_stops_and_only_an_approver_resumes(place: Ward) -> None:
    record = await place.ask()
    answer = await place.bot.slack.command("olga", OPS, "/rackmedic", "stop switch <!here> is on fire")
    await place.bot.settled()
    assert answer.acked
    assert (await place.ledger.get_brake_status()).stopped.startswith(f"{TEAM}:U0OLGA: switch")
    assert brakes.render_stop_notice("olga", "").text in place.bot.texts(OPS)
    assert "<!here>" not in str(place.bot.slack.messages(OPS))
    no = await place.bot.slack.command("olga", OPS, "/rackmedic", "resume")
    assert "Only admins and approvers may do that" in str(no.payload)
    assert (await place.ledger.get_brake_status()).stopped
    told = await place.bot.slack.command("olga", OPS, "/rackmedic", "status")
    assert "by olga: switch" in str(told.payload)
    assert record.action.target in str(told.payload)
    await place.bot.slack.command("priya", OPS, "/rackmedic", "resume")
    await place.bot.settled()
    assert not (await place.ledger.get_brake_status()).stopped
    assert brakes.render_resume_notice("priya").text in place.bot.texts(OPS)


async def test_a_guest_or_a_foreign_channel_stops_nothing(place: Ward) -> None:
    before = await place.dump()
    for user, channel in (("gus", OPS), ("carla", "C0CUSTACME"), ("olga", "C0RANDOM")):
        await place.bot.slack.command(user, channel, "/rackmedic", "stop")
    assert await place.dump() == before


async def test_an_approver_resets_a_breaker_by_its_group(place: Ward) -> None:
    await place.bot.redis.hset("rm:ledger:brakes", "breaker:h100", "tripped by apr-1")
    wrong = await place.bot.slack.command("priya", OPS, "/rackmedic", "resume h200")
    assert NO_SUCH_BREAKER in str(wrong.payload)
    assert (await place.ledger.get_brake_status()).breakers == ("h100",)
    await place.bot.slack.command("priya", OPS, "/rackmedic", "resume h100")
    await place.bot.settled()
    assert (await place.ledger.get_brake_status()).breakers == ()


async def test_home_lists_what_waits_for_me(place: Ward) -> None:
    record = await place.ask(quorum=2)
    await place.ask(action(target="gpu-018", via="gpu-018", requested_by=f"{TEAM}:U0PRIYA"))
    for user in ("priya", "olga"):
        await place.bot.slack.open_home(user)
    await place.bot.settled()
    hers, his = str(place.bot.slack.home("priya")), str(place.bot.slack.home("olga"))
    assert "gpu-017" in hers
    assert "gpu-018" not in hers
    assert "gpu-017" not in his
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    await place.bot.slack.open_home("priya")
    await place.bot.settled()
    assert "gpu-017" not in str(place.bot.slack.home("priya"))


async def test_the_approvers_are_called_once_more_and_only_while_it_matters(place: Ward) -> None:
    record = await place.ask()
    for _ in range(2):
        await place.cards.post_reminder(record)
    reminders = [m for m in place.said() if m["text"] == outcomes.render_reminder(ApprovalCardView(record)).text]
    assert len(reminders) == 1
    assert str(reminders[0]["blocks"]).count("<!subteam^S0GPUAPPR>") == 1
    other = await place.ask(action(target="gpu-018", via="gpu-018"))
    await place.ledger.end_action(other.approval, Transition.REVOKE, "rackmedic", "healed by itself")
    await place.cards.post_reminder(other)
    assert len([m for m in place.said() if m["text"] == outcomes.render_reminder(ApprovalCardView(record)).text]) == 1


async def finished(place: Ward, says: str = "", status: int = 0) -> ActionRecord:
    """Return an approved action that ran."""
    record = await place.ask()
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    approvers = record.terms.approvers
    claim = await place.ledger.claim(record.approval, record.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=approvers)
    output = await place.evidence.put_text(place.incident, "GPU 0000:9b:00.0 was successfully reset.\nAll done. <!channel>")
    return await place.ledger.finish(claim, "failed" if status else "done", exit_status=status, output=output, says=says)


async def test_an_outcome_is_told_on_its_card_and_nowhere_else(place: Ward) -> None:
    await finished(place)
    [record] = await place.ledger.list_incident_records(place.incident)
    judged = await place.ledger.record_outcome(record.approval, "passes_now")
    for _ in range(2):
        await place.cards.post_outcome(judged)
    assert len([m for m in place.said() if "Passes now" in m["text"]]) == 1
    words = str(place.card(record)["blocks"])
    assert "exit status 0" in words
    assert "successfully reset" in words
    assert "<!channel>" not in words
    await place.cards.post_outcome(await place.ledger.record_outcome(record.approval, "recurred"))
    assert len([m for m in place.said() if "Recurred" in m["text"]]) == 1


async def test_an_unknown_outcome_is_announced_once(place: Ward) -> None:
    record = await place.ask()
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    approvers = record.terms.approvers
    claim = await place.ledger.claim(record.approval, record.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=approvers)
    doubted = await place.ledger.finish(claim, "unknown", says="the host stopped answering")
    for _ in range(2):
        await place.cards.post_outcome(doubted)
    assert len([m for m in place.said() if m["text"].startswith("❓ Unknown whether it ran")]) == 2  # the card and the message


async def test_a_refusal_of_the_tool_is_explained(place: Ward) -> None:
    record = await finished(place, "the GPU is still held by a client", 255)
    await place.cards.post_outcome(record)
    assert "still held by a client" in str(place.card(record)["blocks"])
    assert "exit status 255" in str(place.card(record)["blocks"])


async def test_why_an_approved_action_waits_is_on_its_card_until_it_starts(place: Ward) -> None:
    record = await place.ask()
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    await place.cards.show_wait_reason(record, "the kill switch is on")
    assert "the kill switch is on" in str(place.card(record)["blocks"])
    approvers = record.terms.approvers
    await place.ledger.claim(record.approval, record.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=approvers)
    await place.cards.update_card(record)
    words = str(place.card(record)["blocks"])
    assert "the kill switch is on" not in words
    assert "Running since" in words


async def test_a_remedy_that_ran_while_slack_was_away_is_shown_when_it_is_back(place: Ward) -> None:
    await finished(place)
    [record] = await place.ledger.list_incident_records(place.incident)
    scopes, place.bot.slack.workspace.app.scopes = place.bot.slack.workspace.app.scopes, frozenset()
    await place.bot.context.people.record_sharing(OPS, shared=False)  # the channel's sharing is unknown
    with pytest.raises(SlackAnswerMissing):
        await place.cards.post_outcome(record)
    assert "being verified" not in str(place.card(record)["blocks"])
    place.bot.slack.workspace.app.scopes = scopes
    await place.ledger.record_outcome(record.approval, "passes_now")
    await place.cards.update_card(record)
    assert "Passes now" in place.card(record)["text"]


async def test_a_deleted_card_is_not_posted_again(place: Ward) -> None:
    record = await place.ask()
    place.bot.slack.workspace.delete(place.bot.slack.workspace.message(OPS, place.card(record)["ts"]))
    await place.ledger.end_action(record.approval, Transition.REVOKE, "rackmedic", "x")
    await place.cards.update_card(record)
    assert place.said() == []


async def test_an_edit_that_the_host_must_be_asked_about_goes_on_after_slack_has_its_answer() -> None:
    async with ward(ack_timeout_seconds=0.05) as place:
        record = await place.ask()
        for bdf, word in (("0000:ff:00.0", "shows no such bdf"), ("0000:c7:00.0", "")):
            place.driver.host_answers.clear()
            await place.click("priya", place.card(record), approval.EDIT_ACTION_ID)
            view = place.bot.slack.view("priya")
            assert view
            assert await place.bot.slack.submit("priya", view["id"], {modals.FIELD_ID_PREFIX + "bdf": bdf}) == {}
            await place.bot.slack.wait_for(lambda: "ask the host first" in place.whispered("priya"))
            place.clock.go(seconds=5)
            place.driver.host_answers.set()
            await place.bot.settled()
            assert word in place.whispered("priya")
        old, new = await place.ledger.list_incident_records(place.incident)
        assert (old.state, new.action.args["bdf"]) == (State.SUPERSEDED, "0000:c7:00.0")
        assert "Superseded" in str(place.card(old)["text"])


async def test_a_bug_behind_a_counted_vote_claims_nothing_about_hosts(place: Ward) -> None:
    record = await place.ask()
    place.driver.breaks = True
    await place.click("priya", place.card(record), approval.APPROVE_ACTION_ID)
    said = str(place.bot.slack.whispers("priya"))
    assert (await place.state(record), "Internal error" in said) == (State.APPROVED, True)
    assert "Nothing was changed" not in said
    assert str(notes.DECISION_ERROR_TEXT[0]) in said


async def test_a_bug_behind_an_edit_that_took_its_time_is_told_too() -> None:
    async with ward(ack_timeout_seconds=0.05) as place:
        record = await place.ask()
        place.driver.breaks = True
        place.driver.host_answers.clear()
        await place.click("priya", place.card(record), approval.EDIT_ACTION_ID)
        view = place.bot.slack.view("priya")
        assert view
        await place.bot.slack.submit("priya", view["id"], {modals.FIELD_ID_PREFIX + "bdf": "0000:c7:00.0"})
        await place.bot.slack.wait_for(lambda: "ask the host first" in place.whispered("priya"))
        place.driver.host_answers.set()
        await place.bot.settled()
        assert str(notes.DECISION_ERROR_TEXT[0]) in str(place.bot.slack.whispers("priya"))


async def test_a_forgetful_ledger_is_said_on_every_card() -> None:
    async with ward(warning="The ledger is kept in memory only") as place:
        record = await place.ask()
        assert "kept in memory only" in str(place.card(record)["blocks"])


async def test_the_card_of_a_cleanup_is_posted_with_what_would_go(place: Ward) -> None:
    record = await place.ask(action(remedy="cleanup", args={"hours": "72"}, risk="destructive", devices=()))
    words = str(place.card(record)["blocks"])
    assert "Would be deleted: *3 files, 3.0 GiB*" in words
    assert "`/tmp/forgotten.pt` 2.0 GiB, train" in words
