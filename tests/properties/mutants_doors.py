"""Safety bugs seeded one at a time into the doors through which others reach us and tickets leave; the stories of the doors must catch each."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from tests.properties.second_world import Edit, second_world

STORIES = "tests.properties.door_stories"


@dataclass(frozen=True)
class DoorMutant:
    """One bug, the invariant that it breaks, and its edits."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]

    @property
    def story(self) -> str:
        """The one of that invariant."""
        stories: Sequence[str] = importlib.import_module(STORIES).STORIES
        return next(story for story in stories if story.startswith(f"{self.breaks.lower()}_"))

    def row(self) -> str:
        """As a line of the table."""
        return f"| {self.name} | {self.breaks} | the stories of the doors |"


SLACK, HOOK, HEARD, OUTBOX = "bot.slack.http.signing", "bot.inbound.webhook", "bot.store.heard", "bot.store.outbox"
ROUTING, BOOK = "bot.alerts.routing", "bot.alerts.book"
KINDS, FRESHNESS = "graph.incident.answers.kinds", "abs(now - at) > FRESH"

DOOR_MUTANTS: tuple[DoorMutant, ...] = (
    DoorMutant(
        "whatever has Slack's headers is Slack's",
        "I23",
        ((SLACK, "if not signed:", "if False:"),),
    ),
    DoorMutant("Slack's signature is not over every byte", "I23", ((SLACK, "is_valid(body,", "is_valid(body.rstrip(),"),)),
    DoorMutant(
        "a request from the future counts",
        "I23",
        ((SLACK, "FixedClock(now)", "FixedClock(max(now, datetime.fromtimestamp(int(timestamp), now.tzinfo)))"),),
    ),
    DoorMutant("a message signed by nobody we know counts", "I23", ((HOOK, "if not (keys and any(right)):", "if not keys:"),)),
    DoorMutant("a message of any age counts", "I23", ((HOOK, f"if {FRESHNESS}:", "if False:"),)),
    DoorMutant("any token admits an Alertmanager", "I23", (("bot.alerts.intake", "return any(right)", "return bool(header)"),)),
    DoorMutant(
        "what was heard is forgotten at once",
        "I24",
        ((HEARD, "await self._redis.set(key, Hearing.BEFORE, ex=self._lasts)", "await self._redis.delete(key)"),),
    ),
    DoorMutant(
        "what could not be stored counts as heard",
        "I24",
        ((HEARD, "            await self._redis.delete(key)\n            raise\n", "            raise\n"),),
    ),
    DoorMutant("two hear one message", "I24", ((HEARD, "nx=True, ", ""),)),
    DoorMutant(
        "what is not listed counts as over",
        "I25",
        (("bot.alerts.alert", "not self.firing and not self.more and not self.left", "not self.firing and not self.more"),),
    ),
    DoorMutant("a fix that was put up does not keep an incident open", "I25", ((KINDS, "    if case.ladders:\n", "    if False:\n"),)),
    DoorMutant("people who speak to each other are nobody", "I25", ((KINDS, ' or case.item.data.get("people")', ""),)),
    DoorMutant(
        "an older form sends what is shown now",
        "I26",
        ((OUTBOX, "if redis.call('HGET', KEYS[1], 'draft_digest') ~= ARGV[1] then return -1 end\n", ""),),
    ),
    DoorMutant(
        "a second click sends a second ticket",
        "I26",
        ((OUTBOX, "if ARGV[7] == '1' and redis.call('HEXISTS', KEYS[1], 'digest') == 1 and not refused then return 0 end\n", ""),),
    ),
    DoorMutant(
        "two senders have one row",
        "I26",
        ((OUTBOX, "for _, row in ipairs(rows) do redis.call('ZADD', KEYS[1], 'XX', ARGV[2], row) end\n", ""),),
    ),
    DoorMutant("two senders begin with one row", "I26", ((OUTBOX, "redis.call('HSET', KEYS[1], 'held', ARGV[2])\n", ""),)),
    DoorMutant(
        "the last route wins",
        "I29",
        ((ROUTING, "for row in self.routes if row.matches(labels)", "for row in reversed(self.routes) if row.matches(labels)"),),
    ),
    DoorMutant("a part of a value is the whole", "I29", ((ROUTING, "self.pattern.fullmatch(given)", "self.pattern.search(given)"),)),
    DoorMutant("one matcher of several is enough", "I29", ((ROUTING, "return all(row.holds(labels)", "return any(row.holds(labels)"),)),
    DoorMutant("a route leads into any channel", "I29", ((ROUTING, "route.channel in self.hosts and ", ""),)),
    DoorMutant("a route leads into a channel that others read", "I29", ((ROUTING, " and route.channel not in shut", ""),)),
    DoorMutant(
        "a channel is told of hosts that are none of its business",
        "I29",
        ((ROUTING, "if not known and place.channel != self.default", "if False"),),
    ),
    DoorMutant("a cause has one episode in all channels", "I29", ((BOOK, "where = [place.channel, ", "where = [min(places.channels), "),)),
    DoorMutant("another file doubles an open episode", "I29", ((BOOK, "if was[1] ~= table_ and", "if false and"),)),
    DoorMutant(
        "what fires moves with the file",
        "I29",
        ((BOOK, 'and bool(json.loads(row)["firing"]) and', "and False and"), (BOOK, "if was[1] ~= table_ and", "if false and")),
    ),
    DoorMutant("an episode goes on where others read", "I29", ((BOOK, " and await self.channel(episode) in places.channels", ""),)),
)


def killed(mutant: DoorMutant) -> str:
    """What its story says of the bug; empty where it survives."""
    with second_world(mutant.edits) as world:
        return str(world(STORIES).tell(mutant.story))
