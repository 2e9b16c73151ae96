"""Invariant I27 on the local Slack, where people write and click; adds to `tests.properties.customer_stories`."""

from contextlib import AbstractAsyncContextManager

from tests.bot.remediation import test_votes
from tests.bot.tenants import test_rebound_channel, test_tenant_channel
from tests.properties.customer_stories import Story
from tests.support.fakes_approvals import ward
from tests.support.fakes_bot import Behind, slack_side


def customers() -> AbstractAsyncContextManager[Behind]:
    return slack_side(test_tenant_channel.dress, features_of=test_tenant_channel.features_of)


async def i27_people() -> None:
    """An organisation id, and our user id from another workspace, give no rights."""
    async with customers() as bot:
        await test_tenant_channel.test_an_organisations_id_in_place_of_a_workspaces_is_somebody_elses(bot)
        await test_tenant_channel.test_whoever_has_an_id_of_ours_in_another_workspace_tells_a_customer_nothing(bot)


async def i27_threads() -> None:
    """Approvals count only in the internal thread, a tenant's buttons only in theirs."""
    async with ward() as place:
        await test_votes.test_a_button_of_another_thread_changes_nothing(place)
    async with customers() as bot:
        await test_tenant_channel.test_a_button_of_another_thread_is_refused(bot)


async def i27_shared() -> None:
    """Every process stops serving an operators' channel that became shared."""
    async with ward() as place:
        await test_votes.test_a_channel_that_became_shared_a_moment_ago_approves_nothing(place)
    async with customers() as bot:
        await test_tenant_channel.test_a_channel_of_ours_that_turns_shared_stops_at_once_in_every_process(bot)


async def i27_bound() -> None:
    """A channel given to another tenant neither receives nor shows earlier incidents."""
    async with customers() as bot:
        await test_rebound_channel.test_of_an_incident_whose_channel_was_given_to_somebody_else_nothing_is_shown_there(bot)
    async with customers() as bot:
        await test_rebound_channel.test_what_is_said_and_pressed_where_the_channel_is_somebody_elses_by_now_counts_for_nothing(bot)


STORIES: tuple[Story, ...] = (i27_people, i27_threads, i27_bound, i27_shared)
