"""Safety bugs seeded one at a time into scope and identity: whom an incident speaks of, and who somebody is. A story of customers must catch each.
SECURITY.md shows them."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.second_world import Edit, second_world

ROOMS = ("tests.properties.customer_stories", "tests.properties.customer_threads")
IN_SLACK = frozenset({"i27_people", "i27_threads", "i27_bound", "i27_shared"})
"""Stories of the second room: what needs a Slack takes longer to be loaded anew."""
VISIBLE, LEAKS, CHANNELS = "graph.incident.visible", "bot.policy.leaks", "bot.policy.channels"
DOOR, CLICKER, PRESSES = "bot.slack.customers.door", "bot.slack.incoming.clicker", "bot.slack.incoming.approval_clicks"


@dataclass(frozen=True)
class CustomerMutant:
    """One bug, the story that goes straight to it, and its edits."""

    name: str
    story: str
    edits: tuple[Edit, ...]
    breaks: str = "I27"

    def row(self) -> str:
        """As a line of the table."""
        return f"| {self.name} | {self.breaks} | the story `{self.story}` |"


# fmt: off
CUSTOMER_MUTANTS: tuple[CustomerMutant, ...] = (
    CustomerMutant("a customer widens the look by naming a host", "i27_scope",
        ((VISIBLE, 'if item.data.get(SIDE) == CUSTOMER or item.kind == "mention":', 'if item.kind == "mention":'),)),
    CustomerMutant("a customer's incident sees every host of the operators' channel", "i27_scope",
        ((VISIBLE, "return tuple(name for name in own if inventory.hosts[name].tenant == origin.tenant) if origin.tenant else own", "return own"),)),
    CustomerMutant("a customer's channel sees every host", "i27_scope",
        ((VISIBLE, "if inventory.hosts[name].tenant == tenant)", 'if inventory.hosts[name].tenant != "")'),)),
    CustomerMutant("the groups of a customer's channel are not read", "i27_scope",
        ((VISIBLE, "if not (origin.tenant and came and came.groups):", "if True:"),)),
    CustomerMutant("what two customers call theirs means the host of one", "i27_scope",
        ((VISIBLE, "if aliases[host.alias.lower()] == 1}", "if host.alias}"),)),
    CustomerMutant("what our side looked at may be named by the customer", "i27_scope",
        ((VISIBLE, "return Scope(tuple(dict.fromkeys((*own, *kept))), names, groups)",
          "return Scope(tuple(dict.fromkeys((*own, *kept))), visible_names(inventory, (*own, *kept)), groups)"),)),
    CustomerMutant("another customer's job is looked for otherwise than none", "i27_jobs",
        (("tools.inventory.jobs", "            if not mine(found.hosts):\n                await self._accounted(place, job)\n", ""),)),
    CustomerMutant("whose job it is is not asked", "i27_jobs",
        (("graph.incident.summarise", "if ports.own_job is None or not (case.origin and case.origin.tenant):", "if True:"),)),
    CustomerMutant("another customer's name passes the check of words", "i27_words",
        ((LEAKS, "for name in _named(plain, self._others, _CUSTOMER))", "for name in ())"),)),
    CustomerMutant("what another customer calls their host passes it", "i27_words",
        ((LEAKS, "for name in (host.name, host.address, host.alias) if name}", "for name in (host.name, host.address) if name}"),)),
    CustomerMutant("a host within a range passes it", "i27_words",
        ((LEAKS, "for found in _RANGE.findall(plain):", "for found in ():"),)),
    CustomerMutant("an invisible letter hides a host from it", "i27_words",
        ((LEAKS, "unicodedata.category(char) not in _UNSEEN", "True"),)),
    CustomerMutant("whose workspace somebody is of is where the app is", "i27_who",
        ((CLICKER, 'return Voter(str(user["team_id"]), str(user["id"]))', 'return Voter(str(payload["team"]["id"]), str(user["id"]))'),)),
    CustomerMutant("a flag that Slack leaves out makes a full member", "i27_who",
        ((CHANNELS, "all(user.get(flag) is False for flag in", "all(not user.get(flag) for flag in"),)),
    CustomerMutant("full members of another workspace are colleagues", "i27_who",
        ((CHANNELS, "if not who.human or not who.team or who.team != team:", "if not who.human or not who.team:"),)),
    CustomerMutant("an organisation's id in place of a workspace's is ours", "i27_people",
        ((DOOR, 'arrival.user_team in ("", arrival.team)', "True"),)),
    CustomerMutant("an id of ours in another workspace tells a customer something", "i27_people",
        (("bot.slack.customers.telling", 'if str(user.get("team_id") or "") != team:', "if False:"),)),
    CustomerMutant("an approval card counts wherever it was copied", "i27_threads",
        ((PRESSES, 'if (str((payload.get("channel") or {}).get("id", "")), _thread(payload)) != (on.origin.channel, on.origin.thread_ts):', "if False:"),)),
    CustomerMutant("a customer's button counts in any thread", "i27_threads",
        ((DOOR, "            or (origin.customer.channel, origin.customer.thread_ts) != (channel, thread_of(payload))\n", ""),)),
    CustomerMutant("a channel given to somebody else shows what was reported there before", "i27_bound",
        ((CHANNELS, 'row.kind == "tenant" and row.tenant == origin.tenant else None', 'row.kind == "tenant" else None'),)),
    CustomerMutant("a channel that others read by now is served", "i27_shared",
        (("bot.slack.context", "if await self.people.shared(place.channel):", "if False:"),)),
    CustomerMutant("a process that remembers a channel does not hear that it turned shared", "i27_shared",
        (("bot.slack.people", "told = await self._heard(channel)", "told = None"),)),
)
# fmt: on


def killed(mutant: CustomerMutant) -> str:
    """What its story says of the bug; empty where it survives."""
    with second_world(mutant.edits) as world:
        return str(world(ROOMS[mutant.story in IN_SLACK]).complaint(mutant.story))


def unmoved() -> Sequence[str]:
    """Complaints about the product without a bug, loaded anew; none where the stories are content."""
    with second_world(()) as world:
        rooms = [world(room) for room in ROOMS]
        return [f"{story}: {says}" for room in rooms for story in room.STORIES if (says := room.complaint(story))]


def main(names: Sequence[str]) -> int:
    """Kill them all, or those whose names begin so, and say how long each took; 1 when one survives."""
    survived = 0
    for mutant in [row for row in CUSTOMER_MUTANTS if not names or row.name.startswith(tuple(names))]:
        began = time.perf_counter()
        says = killed(mutant)
        survived += not says
        print(f"{mutant.row()} {time.perf_counter() - began:.1f} {says.splitlines()[0][:150] if says else '**survived**'}", flush=True)
    return int(survived > 0)


if __name__ == "__main__":
    print(*unmoved(), sep="\n")
    sys.exit(main(sys.argv[1:]))
