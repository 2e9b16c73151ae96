"""A tenant over quota is told once per waiting item in their thread and language; operators see what waits and can let
it in.
"""

import json
from collections.abc import AsyncIterator

import pytest

from bot.policy.quotas import ExceededLimit, Quota, QuotaLimit
from bot.tenants.cards.quota_waiting import LET_IN_ACTION_ID, WAIT_REASONS
from bot.tenants.quota_notices import QuotaNotices
from tests.bot.tenants.test_tenant_channel import cards_of, dress, features_of, reported
from tests.support.clock import T0
from tests.support.fakes_bot import ACME, OPS, TEAM, Behind, slack_side


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side(dress, features_of=features_of) as behind:
        yield behind


async def test_who_waits_is_told_once_when_it_goes_on(bot: Behind) -> None:
    incident, thread = await reported(bot)
    waiting = QuotaNotices(cards_of(bot.context, bot.redis))
    [item] = await bot.inbox.list_waiting(incident)
    origin = await bot.inbox.get_origin(incident)
    assert origin
    for _ in range(2):
        await waiting.post_notice(origin, item, ExceededLimit(QuotaLimit.MENTIONS, T0), Quota(mentions_per_hour=7))
    told = [row for row in bot.slack.thread(ACME, thread) if "7 Mal in einer Stunde" in str(row["text"])]
    assert len(told) == 1
    assert "um 03:10 UTC von selbst weiter" in str(told[0]["text"])
    assert bot.texts(OPS) == []


# -- what operators see and do ----------------------------------------------------------------------------------


async def storm(bot: Behind, count: int) -> list[str]:
    """Report incidents of acme over quota; return them oldest first."""
    waits = bot.messages.open_work.quota_waiting_list
    incidents = [(await reported(bot, f"@rackmedic job {4711 + n} hangs on gpu-017"))[0] for n in range(count)]
    for incident in incidents:
        await waits.add_incident("acme", incident, ExceededLimit(QuotaLimit.MENTIONS, T0))
    bot.woken.clear()
    return incidents


async def home_of(bot: Behind, user: str) -> str:
    await bot.slack.open_home(user)
    await bot.settled()
    await bot.slack.wait_for(lambda: bot.slack.home(user))
    return json.dumps(bot.slack.home(user), ensure_ascii=False)


async def press_at_home(bot: Behind, user: str) -> str:
    """Click "let in" on the Home tab as it was last published; return the new tab."""
    await bot.slack.click_view(user, str((bot.slack.home(user) or {})["id"]), LET_IN_ACTION_ID)
    await bot.settled()
    return json.dumps(bot.slack.home(user), ensure_ascii=False)


async def test_a_storm_of_a_customer_is_one_line_on_the_home_tab_and_hides_nothing(bot: Behind) -> None:
    incidents = await storm(bot, 3)
    ours = await bot.slack.say("olga", OPS, "@rackmedic job 99 hangs on gpu-019")
    await bot.settled()
    shown = await home_of(bot, "olga")
    assert shown.count("*acme*: 3 reports wait, the oldest since") == 1
    assert "job 4711 hangs on gpu-017" in shown
    assert "used up; it continues automatically at 03:10:00 UTC" in shown
    assert shown.count(LET_IN_ACTION_ID) == 1
    mine = await bot.inbox.find_incident(TEAM, OPS, ours)
    assert mine
    assert mine in shown
    assert not [incident for incident in incidents[1:] if incident in shown]


async def test_where_only_a_report_waits_the_list_does_not_say_that_nothing_is_open(bot: Behind) -> None:
    [incident] = await storm(bot, 1)
    answer = str((await bot.slack.command("olga", OPS, "/rackmedic", "status")).payload)
    assert "*acme*: 1 report waits since" in answer
    assert "Nothing is open" not in answer
    assert incident in answer
    await bot.messages.open_work.quota_waiting_list.remove_incident("acme", incident)
    assert "report waits" not in str((await bot.slack.command("olga", OPS, "/rackmedic", "status")).payload)


async def test_one_of_ours_lets_the_oldest_in_from_the_home_tab(bot: Behind) -> None:
    first, second = await storm(bot, 2)
    await home_of(bot, "olga")
    assert "The report of acme starts now" in await press_at_home(bot, "olga")
    assert bot.woken == [first]
    assert [await bot.messages.open_work.quota_waiting_list.is_let_in(one) for one in (first, second)] == [True, False]
    await bot.messages.open_work.quota_waiting_list.remove_incident("acme", first)
    await home_of(bot, "olga")
    await bot.messages.open_work.quota_waiting_list.remove_incident("acme", second)
    assert "That report has already started" in await press_at_home(bot, "olga")
    assert bot.woken == [first]


async def test_and_below_what_a_mention_lists_in_the_channel(bot: Behind) -> None:
    [incident] = await storm(bot, 1)
    thread = await bot.slack.say("olga", OPS, "@rackmedic status")
    await bot.settled()
    [listed] = [row for row in bot.slack.thread(OPS, thread) if row.get("bot_id")]
    await bot.slack.click("anton", str(listed["ts"]), LET_IN_ACTION_ID)
    await bot.settled()
    assert bot.woken == [incident]
    assert any("starts now" in str(row["text"]) for row in bot.slack.thread(OPS, thread, "anton"))


async def test_tenants_guests_and_strangers_cannot_let_anything_in(bot: Behind) -> None:
    [incident] = await storm(bot, 1)
    thread = await bot.slack.say("olga", OPS, "@rackmedic status")
    await bot.settled()
    [listed] = [row for row in bot.slack.thread(OPS, thread) if row.get("bot_id")]
    bot.slack.workspace.channel(OPS).members.extend(bot.slack.workspace.user(who).id for who in ("gus", "carla"))
    for who in ("gus", "carla"):
        await bot.slack.click(who, str(listed["ts"]), LET_IN_ACTION_ID)
        await bot.settled()
    bot.slack.share(OPS)
    await bot.slack.click("olga", str(listed["ts"]), LET_IN_ACTION_ID)
    await bot.settled()
    assert bot.woken == []
    assert not await bot.messages.open_work.quota_waiting_list.is_let_in(incident)


def test_every_limit_has_its_words() -> None:
    assert set(WAIT_REASONS) == set(QuotaLimit)
