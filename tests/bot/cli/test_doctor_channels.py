"""`doctor` asks Slack whether each operators' channel is shared; a shared one fails with the way to fix it."""

from bot.cli.doctor.finding import Finding
from bot.cli.doctor.integrations import FIX_HINT, check_channels
from bot.settings import load_settings
from bot.slack.manifest import build_manifest
from deploy.sandbox.slack import SlackSandbox
from tests.support.fakes_bot import ACME, OPS
from tests.support.inventories import inventory

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}},
    channels=[
        {"channel": OPS, "kind": "operators"},
        {"channel": ACME, "kind": "tenant", "tenant": "acme", "internal": OPS},
        {"channel": "C0GONE", "kind": "operators"},
    ],
)


async def asked(slack: SlackSandbox) -> list[Finding]:
    settings = load_settings(None, {"RACKMEDIC_SLACK_BOT_TOKEN": slack.bot_token, "RACKMEDIC_SLACK_API_URL": slack.api_url})
    return await check_channels(settings, SITE)


async def test_a_channel_of_ours_that_others_read_fails_and_a_customers_does_not() -> None:
    async with SlackSandbox(manifest=build_manifest()) as slack:
        assert [row.state for row in await asked(slack)] == ["ok", "ok", "warn"]
        slack.share(OPS)
        ours, theirs, gone = await asked(slack)
    assert (ours.state, ours.mend) == ("fail", FIX_HINT)
    assert OPS in ours.says
    assert theirs.state == "ok"
    assert "Slack does not say whether another organisation reads it" in gone.says


async def test_without_a_token_the_bindings_are_listed_and_slack_is_not_asked() -> None:
    assert [row.state for row in await check_channels(load_settings(None, {}), SITE)] == ["ok"] * 3
