"""Doctor's checks of the policy and the people it names."""

from collections.abc import Awaitable, Sequence

from bot.app.diagnosis_runtime import WallClock
from bot.app.on_call import OnCallSchedules, UserGroups
from bot.cli.doctor.finding import Finding
from bot.policy.policy_file import BadPolicy, SitePolicy, format_policy, load_policy
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from bot.slack.client import build_slack_client
from bot.slack.people import People
from tools.clock import Clock
from tools.inventory.inventory import Inventory


async def check_policy(settings: Settings, inventory: Inventory) -> list[Finding]:
    if settings.policy is None:
        return [Finding("policy", "ok", "as built in", f"{ENV_PREFIX}POLICY names a file of your own, see docs/roles.md")]
    try:
        policy = load_policy(settings.policy, inventory)
    except BadPolicy as error:
        return [Finding("policy", "fail", problem, "fix the file; nothing is served until then") for problem in error.problems]
    findings = [Finding("policy", "ok", line) for line in format_policy(policy)]
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return [
            *findings,
            Finding("policy", "off", "without a bot token the people it names are not looked up", f"set {ENV_PREFIX}SLACK_BOT_TOKEN"),
        ]
    return [*findings, *await check_people_sources(policy, People(build_slack_client(token, settings.slack_api_url)), WallClock())]


async def check_people_sources(policy: SitePolicy, groups: UserGroups, clock: Clock) -> list[Finding]:
    schedule = OnCallSchedules(policy.approvers.on_call, groups, clock)
    lookups = [(f"the user group {group}", groups.list_members(group)) for group in _list_user_groups(policy)]
    lookups += [(f"on call by {name}", schedule.list_on_call(name)) for name in policy.approvers.on_call]
    return [await _check_people_source(name, people) for name, people in lookups]


async def _check_people_source(name: str, people: Awaitable[frozenset[str]]) -> Finding:
    try:
        count = len(await people)
    except Refusal as error:
        return Finding("policy", "fail", f"{name}: {error}", "until it answers, no approver is found through it")
    if not count:
        return Finding("policy", "warn", f"{name}: it has no members", "it approves nothing")
    return Finding("policy", "ok", f"{name}: {count} {'person' if count == 1 else 'people'} now")


def _list_user_groups(policy: SitePolicy) -> Sequence[str]:
    people_sets = [*policy.approvers.sets.values(), *(people for _, people in policy.roles.named_people)]
    return sorted({group for people in people_sets for group in people.groups})
