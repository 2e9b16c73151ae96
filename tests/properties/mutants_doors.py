"""Safety bugs in the inbound and outbound interfaces; the story of the broken invariant must catch each."""

from bot.alerts import alert_store
from bot.alerts.alert import AlertTally
from bot.alerts.alert_store import AlertStore
from bot.alerts.intake import is_authorized
from bot.alerts.routing import AlertRoute, AlertRouting, LabelMatcher
from bot.app.http.guard import ConnectionGuard, RoutePool
from bot.app.http.server import RouteHandler
from bot.signed_messages import verify_message
from bot.slack.http.delivery import verify_signature
from bot.store import external_outbox
from bot.store.replay_guard import ReplayGuard
from graph.incident.answers.item_answers import _get_keep_open_reason
from tests.properties.door_stories import STORIES, tell
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged

DOOR_MUTANTS: tuple[Mutant, ...] = (
    Mutant("whatever has Slack's headers is Slack's", "I23", (Edit(verify_signature, "not is_signed", "False"),)),
    Mutant(
        "Slack's signature is not over every byte",
        "I23",
        (
            Edit(
                verify_signature,
                "SignatureVerifier(secret, FixedClock(now)).is_valid(body, timestamp, signature)",
                "SignatureVerifier(secret, FixedClock(now)).is_valid(body.rstrip(), timestamp, signature)",
            ),
        ),
    ),
    Mutant(
        "a request from the future counts",
        "I23",
        (
            Edit(
                verify_signature,
                "FixedClock(now)",
                "FixedClock(max(now, datetime.fromtimestamp(int(timestamp), now.tzinfo)))",
            ),
        ),
    ),
    Mutant("a message signed by nobody we know counts", "I23", (Edit(verify_message, "any(right)", "True"),)),
    Mutant("a message of any age counts", "I23", (Edit(verify_message, "abs(now - at) > MAX_CLOCK_SKEW", "False"),)),
    Mutant("any token admits an Alertmanager", "I23", (Edit(is_authorized, "any(right)", "bool(header)"),)),
    Mutant(
        "what was heard is forgotten at once",
        "I24",
        (Edit(ReplayGuard.guard_message, "self._redis.set(key, ReplayState.DONE, ex=self._ttl)", "self._redis.delete(key)"),),
    ),
    Mutant("what could not be stored counts as heard", "I24", (Edit(ReplayGuard.guard_message, "await self._redis.delete(key)"),)),
    Mutant("two hear one message", "I24", (Edit(ReplayGuard.guard_message, "nx=True"),)),
    Mutant("what is not listed counts as over", "I25", (Edit(AlertTally.is_resolved, "not self.left", "True"),)),
    Mutant("a fix that was put up does not keep an incident open", "I25", (Edit(_get_keep_open_reason, "context.remediations", "False"),)),
    Mutant("people who speak to each other are nobody", "I25", (Edit(_get_keep_open_reason, "context.item.data.get('people')", "False"),)),
    Mutant(
        "an older form sends what is shown now",
        "I26",
        (Edit(external_outbox.PUT_SCRIPT, "if redis.call('HGET', KEYS[1], 'draft_digest') ~= ARGV[1] then return -1 end"),),
    ),
    Mutant(
        "a second click sends a second ticket",
        "I26",
        (
            Edit(
                external_outbox.PUT_SCRIPT,
                "if ARGV[7] == '1' and redis.call('HEXISTS', KEYS[1], 'digest') == 1 and not refused then return 0 end",
            ),
        ),
    ),
    Mutant(
        "two senders have one row",
        "I26",
        (Edit(external_outbox.CLAIM_DUE_SCRIPT, "for _, row in ipairs(rows) do redis.call('ZADD', KEYS[1], 'XX', ARGV[2], row) end"),),
    ),
    Mutant("two senders begin with one row", "I26", (Edit(external_outbox.BEGIN_SCRIPT, "redis.call('HSET', KEYS[1], 'held', ARGV[2])"),)),
    Mutant("the last route wins", "I29", (Edit(AlertRouting.find_place, "self.routes", "reversed(self.routes)"),)),
    Mutant("a part of a value is the whole", "I29", (Edit(LabelMatcher.matches, "self.pattern.fullmatch", "self.pattern.search"),)),
    Mutant("one matcher of several is enough", "I29", (Edit(AlertRoute.matches, "all", "any"),)),
    Mutant("a route leads into any channel", "I29", (Edit(AlertRouting.find_place, "route.channel in self.hosts", "True"),)),
    Mutant("a route leads into a channel that others read", "I29", (Edit(AlertRouting.find_place, "route.channel not in shut", "True"),)),
    Mutant(
        "a channel is told of hosts that are none of its business",
        "I29",
        (
            Edit(
                AlertRouting.route_alert,
                "not host and place.channel != self.default and self._resolve_host(alert.host, '')",
                "False and self._resolve_host(alert.host, '')",
            ),
        ),
    ),
    Mutant(
        "a cause has one episode in all channels",
        "I29",
        (Edit(AlertStore._find_or_begin_episode, "place.channel", "min(places.channels)"),),
    ),
    Mutant(
        "another file doubles an open episode", "I29", (Edit(alert_store.BEGIN_EPISODE_SCRIPT, "if was[1] ~= table_ and", "if false and"),)
    ),
    Mutant(
        "what fires moves with the file",
        "I29",
        (
            Edit(AlertStore._is_firing_in_episode, "alert.firing", "False"),
            Edit(alert_store.BEGIN_EPISODE_SCRIPT, "if was[1] ~= table_ and", "if false and"),
        ),
    ),
    Mutant(
        "an episode goes on where others read",
        "I29",
        (Edit(AlertStore._is_firing_in_episode, "await self.get_channel(episode) in places.channels", "True"),),
    ),
    Mutant("held connections keep others out", "I31", (Edit(ConnectionGuard.accept, "not self._waiting", "True"),)),
    Mutant(
        "the newest connection is given up",
        "I31",
        (Edit(ConnectionGuard.accept, "next(iter(self._waiting))", "next(reversed(self._waiting))"),),
    ),
    Mutant("slow bodies keep others out", "I31", (Edit(RoutePool._make_room, "not self._reading", "True"),)),
    Mutant("a head is not judged", "I31", (Edit(RouteHandler._answer_request, "self._route.judge(request.headers)", "None"),)),
)


def kill(mutant: Mutant) -> str:
    """Return the story's complaint about the mutant, or "" if it survives."""
    story = next(story for story in STORIES if story.startswith(f"{mutant.breaks.lower()}_"))
    return run_mutant(mutant, lambda: tell(story))


def control() -> str:
    """Return the stories' complaint about the product without a bug."""
    return run_mutant(unchanged(DOOR_MUTANTS), lambda: "".join(map(tell, STORIES)))
