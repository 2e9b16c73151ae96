"""Which approver sets decide about which hosts and risks. Tables and pure functions.

The first matching rule replaces the channel's own approvers. An empty set stays empty: there is no fallback.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import Field

from bot.policy.roles import NamedPeople
from kb.schema import StrictModel
from tools.action import Risk

# The approvers without a policy: the user group of the incident's channel, and RACKMEDIC_APPROVERS.
CHANNEL_SET: Final = "channel"
NOBODY_SET: Final = "nobody"  # Used if the rules of an action's host groups have no set in common.
USE_USER_GROUP_HINT: Final = "use a Slack user group, named as `approvers` of the channel in the inventory, and change its members in Slack"
HOURS_REMOVED_HINT: Final = f"rules apply at all hours; {USE_USER_GROUP_HINT}, or name an on_call source in a set"


class OnCallSource(StrictModel):
    """Where it stands who is on call: a Slack user group, a JSON file, or what a schedule answers at a URL. One of them."""

    user_group: str = ""
    file: Path | None = None
    webhook: str = ""

    @property
    def problem(self) -> str:
        sources = [bool(self.user_group), self.file is not None, bool(self.webhook)]
        if sum(sources) != 1:
            return "name one of user_group, file and webhook"
        return "" if not self.webhook or self.webhook.startswith("https://") else "a webhook must begin with https://"


class ApproverSet(NamedPeople):
    """Who is in it: users, user groups, and whoever is on call by a source of `on_call`."""

    on_call: tuple[str, ...] = ()


class SetRule(StrictModel):
    """Which sets decide: about hosts of these groups (none: of all), with these risks (none: with all)."""

    removed_fields: ClassVar[Mapping[str, str]] = {"when": HOURS_REMOVED_HINT}

    groups: tuple[str, ...] = ()
    risks: tuple[Risk, ...] = ()
    sets: Annotated[tuple[str, ...], Field(min_length=1)]


class ApproverTable(StrictModel):
    """What a site says of who approves. Without it every channel has its own approvers, about everything."""

    removed_fields: ClassVar[Mapping[str, str]] = {
        "hours": HOURS_REMOVED_HINT,
        "break_glass": f"name everybody who may approve; {USE_USER_GROUP_HINT}",
        "delegation_hours": f"an approver cannot lend the right to approve; {USE_USER_GROUP_HINT}",
    }

    sets: Mapping[str, ApproverSet] = Field(default_factory=dict)
    rules: tuple[SetRule, ...] = ()
    on_call: Mapping[str, OnCallSource] = Field(default_factory=dict)

    def find_sets(self, groups: Iterable[str], risk: Risk) -> tuple[str, ...]:
        """Return the sets that decide about each of these groups."""
        rows = [self._find_first_sets(group, risk) for group in dict.fromkeys(groups)] or [(CHANNEL_SET,)]
        return tuple(name for name in rows[0] if all(name in row for row in rows[1:])) or (NOBODY_SET,)

    def _find_first_sets(self, group: str, risk: Risk) -> tuple[str, ...]:
        for rule in self.rules:
            if (not rule.groups or group in rule.groups) and (not rule.risks or risk in rule.risks):
                return rule.sets
        return (CHANNEL_SET,)

    def list_problems(self, groups: Iterable[str] | None = None) -> list[tuple[tuple[str | int, ...], str]]:
        """Return (position, problem) of every undefined name. `groups`: those of the inventory, if known."""
        known_sets, hosts = {*self.sets, CHANNEL_SET}, None if groups is None else set(groups)
        problems: list[tuple[tuple[str | int, ...], str]] = []
        for at, rule in enumerate(self.rules):
            problems += [(("rules", at, "sets"), f"there is no set {name!r}") for name in rule.sets if name not in known_sets]
            problems += [
                (("rules", at, "groups"), f"the inventory has no group {g!r}") for g in rule.groups if hosts is not None and g not in hosts
            ]
        for name, row in self.sets.items():
            problems += [(("sets", name), f"{name!r} is taken; choose another name")] if name in (CHANNEL_SET, NOBODY_SET) else []
            problems += [
                (("sets", name), f"there is no source {source!r} under on_call") for source in row.on_call if source not in self.on_call
            ]
            problems += [] if row or row.on_call else [(("sets", name), "it has no members")]
        return problems + [(("on_call", name), source.problem) for name, source in self.on_call.items() if source.problem]
