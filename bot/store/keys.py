"""Every Redis key. A changed name or value needs a new store version (`bot.store.store`).

The rest of two prefixes is named elsewhere: THREAD_KEY_PREFIX in `graph.checkpoints`, LEDGER_KEY_PREFIX in
`tools.ledger`.
"""

from dataclasses import dataclass

KEY_PREFIX = "rm"
THREAD_KEY_PREFIX = f"{KEY_PREFIX}:thread"  # LangGraph's checkpoints
LEDGER_KEY_PREFIX = f"{KEY_PREFIX}:ledger:"  # the approval ledger
VERSION_KEY = f"{KEY_PREFIX}:version"
WAKEUP_STREAM_KEY = f"{KEY_PREFIX}:wakeups"
ACTION_WAKEUP_STREAM_KEY = f"{KEY_PREFIX}:action-wakeups"
INCIDENT_METRICS_KEY = f"{KEY_PREFIX}:courses"
INCIDENT_METRICS_AGE_KEY = f"{KEY_PREFIX}:courses:age"
FEEDBACK_KEY = f"{KEY_PREFIX}:feedback"
LESSONS_KEY = f"{KEY_PREFIX}:lessons"
LESSONS_VERSION_KEY = f"{KEY_PREFIX}:lessons:version"


class RedisKeys:
    """The keys of one kind of work. All keys of one incident share a hash tag."""

    def __init__(self, prefix: str = KEY_PREFIX) -> None:
        self.due = f"{prefix}:due"
        self.open = f"{prefix}:open"
        self.held = f"{prefix}:held"
        self.fence = f"{prefix}:fence"
        self.dead = f"{prefix}:dead"
        self.living = f"{prefix}:living"
        self.actions_due = f"{prefix}:actions:due"
        self.provider_due = f"{prefix}:provider:due"
        self.trackers_due = f"{prefix}:trackers:due"
        self.salt = f"{prefix}:provider:salt"
        self.waits = f"{prefix}:waits"
        self.waits_why = f"{prefix}:waits:why"
        self.waits_let_in = f"{prefix}:waits:let-in"
        self._prefix = prefix

    def incident_key(self, incident: str, part: str = "") -> str:
        return f"{self._prefix}:incident:{{{incident}}}" + (f":{part}" if part else "")

    def lease_key(self, incident: str) -> str:
        return self.incident_key(incident, "lease")

    def cards_key(self, incident: str) -> str:
        return self.incident_key(incident, "cards")

    def card_lock_key(self, incident: str, card: str) -> str:
        return self.incident_key(incident, f"cards:{card}:alone")

    def seen_item_key(self, key: str) -> str:
        return f"{self._prefix}:seen:{key}"

    def thread_key(self, team: str, channel: str, thread_ts: str) -> str:
        return f"{self._prefix}:at:{team}:{channel}:{thread_ts}"

    def joined_key(self, team: str, channel: str, thread_ts: str) -> str:
        return f"{self._prefix}:joined:{team}:{channel}:{thread_ts}"

    def fingerprint_key(self, kind: str, name: str) -> str:
        return f"{self._prefix}:concern:{kind}:{name}"

    def cause_key(self, name: str) -> str:
        return f"{self._prefix}:cause:{name}"

    def closed_index_key(self, kind: str, name: str = "") -> str:
        return f"{self._prefix}:earlier:{kind}:{name}"

    def shown_news_key(self, approval: str) -> str:
        return f"{self._prefix}:actions:told:{approval}"

    def ticket_key(self, ticket: str) -> str:
        return f"{self._prefix}:ticket:{ticket}"

    def intake_key(self, kind: str, name: str) -> str:
        return f"{self._prefix}:intake:{kind}:{name}"

    def alerts_key(self, part: str, name: str) -> str:
        return f"{self._prefix}:alerts:{part}:{name}"

    def replay_key(self, room: str, sign: str) -> str:
        return f"{self._prefix}:heard:{room}:{sign}"

    def treatments_key(self, host: str) -> str:
        return f"{self._prefix}:actions:treated:{host}"

    def baseline_key(self, host: str) -> str:
        return f"{self._prefix}:baseline:{host}"

    def quota_key(self, tenant: str, part: str) -> str:
        return f"{self._prefix}:share:{tenant}:{part}"

    def channel_sharing_key(self, channel: str) -> str:
        return f"{self._prefix}:shared:{channel}"

    def slack_slots_key(self, method: str) -> str:
        return f"{self._prefix}:turns:{method}"

    def gpu_reservation_key(self, host: str) -> str:
        return f"{self._prefix}:gpus:{host}"


# Leases on single actions and on an incident's remediations, so that the worker that advances them does not block the
# dispatcher.
ACTION_KEYS = RedisKeys(f"{KEY_PREFIX}:act")
# Direct messages: a conversation has the same keys as an incident, but is none.
DIRECT_MESSAGE_KEYS = RedisKeys(f"{KEY_PREFIX}:direct")
# Short answers on their way to Slack: a thread has the same keys as an incident, but is none.
OUTBOX_KEYS = RedisKeys(f"{KEY_PREFIX}:outbox")


@dataclass(frozen=True, slots=True)
class KeyDescription:
    """A row of KEY_TABLE: the form of a key (`*` is an id), what it holds, when it is deleted."""

    form: str
    holds: str
    goes: str = ""


CLOSED_RETENTION_TEXT = "some days after the incident is closed (closed_retention_days)"
# fmt: off
KEY_TABLE = (
    KeyDescription("rm:version",                    "the store version, written into an empty store; a process that reads another one does not start"),
    KeyDescription("rm:due",                        "zset: `INCIDENT WHY`, by when somebody must look"),
    KeyDescription("rm:open",                       "zset: incidents that are not closed, by when they were opened"),
    KeyDescription("rm:held",                       "zset: incidents whose nodes we hold, closed ones too, by when they were opened", "when the nodes are back"),
    KeyDescription("rm:fence",                      "counter behind the tokens of leases"),
    KeyDescription("rm:dead",                       "list: items that no turn could answer; the last thousand"),
    KeyDescription("rm:living",                     "zset: incidents whose message says that somebody is looking, by since when"),
    KeyDescription("rm:direct:due",                 "zset: `CONVERSATION work`, by when a direct message must be looked at", "with the answers"),
    KeyDescription("rm:direct:open",                "zset: conversations with a direct message that is not answered", "with the answers"),
    KeyDescription("rm:direct:fence",               "counter behind the tokens of their leases"),
    KeyDescription("rm:direct:dead",                "list: direct messages that could not be answered; the last thousand"),
    KeyDescription("rm:direct:seen:*",              "the conversation of a direct message that was heard", "after 8 days"),
    KeyDescription("rm:direct:at:*",                "the conversation of a Slack thread", "a day after its last answer"),
    KeyDescription("rm:direct:incident:{*}",        "hash: where a conversation takes place", "a day after its last answer"),
    KeyDescription("rm:direct:incident:{*}:*",      "what waits for an answer there, who answers, and which message is the answer", "a day after its last answer"),
    KeyDescription("rm:outbox:due",                 "zset: `THREAD work`, by when a short answer must be posted", "with the answers"),
    KeyDescription("rm:outbox:open",                "zset: threads with an answer that is not posted", "with the answers"),
    KeyDescription("rm:outbox:fence",               "counter behind the tokens of their leases"),
    KeyDescription("rm:outbox:dead",                "list: answers that could not be posted; the last thousand"),
    KeyDescription("rm:outbox:seen:*",              "the thread of an answer that was stored", "after 8 days"),
    KeyDescription("rm:outbox:at:*",                "the outbox's name for a Slack thread", "a day after its last answer"),
    KeyDescription("rm:outbox:incident:{*}",        "hash: where a thread is", "a day after its last answer"),
    KeyDescription("rm:outbox:incident:{*}:*",      "answers that wait there, who posts them, and which message is which", "a day after its last answer"),
    KeyDescription("rm:turns:*",                    "when the next call of a crowded method of Slack's may go out", "when nobody waits for one"),
    KeyDescription("rm:seen:*",                     "the incident of something that was heard", "after 8 days"),
    KeyDescription("rm:at:*",                       "the incident of a Slack thread", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:joined:*",                   "the incident of another thread that the report of a Slack thread joined", "after 8 days"),
    KeyDescription("rm:concern:*",                  "zset: open incidents that concern a host, job or alert, by when they were opened", "with the last of them"),
    KeyDescription("rm:cause:*",                    "list: open incidents that found a cause somewhere; the first keeps its fix", "with the last of them"),
    KeyDescription("rm:earlier:*",                  "zset: closed incidents of a host, device or cause, by when they were closed", "some days after the last of them"),
    KeyDescription("rm:incident:{*}:earlier",       "how a closed incident went, for those who ask whether it happened before", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}",               "hash: where it came from, when, and how far it is", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}:inbox",         "list: what waits for a turn, oldest first", "with its last item"),
    KeyDescription("rm:incident:{*}:timers",        "set: which timers run", "with the last timer"),
    KeyDescription("rm:incident:{*}:tries",         "hash: how often turns of an item were begun and failed", "with the item"),
    KeyDescription("rm:incident:{*}:threads",       "set: keys of its Slack threads", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}:concerns",      "set: keys of the hosts, the job and the alerts that it concerns", "when it is closed"),
    KeyDescription("rm:incident:{*}:causes",        "set: keys of the causes that it found", "when it is closed"),
    KeyDescription("rm:incident:{*}:posted",        "hash: which items' reports were posted", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}:spent",         "hash: what a model cost", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}:pulse",         "hash: who spoke last in its thread, and how often it was answered lately", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}:lease",         "who works on it, with a fencing token", "with the turn, or lease_seconds after its process died"),
    KeyDescription("rm:incident:{*}:cards",         "hash: which Slack message is which card", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:incident:{*}:cards:*:alone", "who posts a card just now", "with the post"),
    KeyDescription("rm:thread:{*}:*",               "LangGraph's checkpoints of an incident or an action", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:actions:due",                "zset: actions and incidents, by when somebody must look at what they wait for"),
    KeyDescription("rm:actions:told:*",             "hash: what people were told of an action", "40 days after the last news"),
    KeyDescription("rm:actions:treated:*",          "hash: devices of a host, by when a remedy that helped was claimed for them", "40 days after the last remedy"),
    KeyDescription("rm:baseline:*",                 "what a host looked like when an incident last found it well, compressed", "40 days after that"),
    KeyDescription("rm:act:fence",                  "counter behind the tokens of those leases"),
    KeyDescription("rm:act:incident:{*}:lease",     "who drives an action or tends an incident's ladders", "as other leases"),
    KeyDescription("rm:ledger:*",                   "the approval ledger and its audit chain"),
    KeyDescription("rm:share:*:incidents",          "set: a customer's incidents that were begun and have not ended", "30 days after the last of them began"),
    KeyDescription("rm:share:*:mentions",           "zset: what a customer asked for that was begun, by when", "an hour after the last"),
    KeyDescription("rm:waits",                      "zset: `INCIDENT TENANT` of what waits for a customer's share, by since when", "when its turn begins"),
    KeyDescription("rm:waits:why",                  "hash: over which limit each customer was last, and until when"),
    KeyDescription("rm:waits:let-in",               "set: incidents that wait and that one of our people let in", "when its turn begins"),
    KeyDescription("rm:gpus:*",                     "who holds a host for a check that needs its GPUs", "with the check"),
    KeyDescription("rm:ticket:*",                   "a ticket that a customer's own RackMedic sent", "8 days without an incident; then as its incident"),
    KeyDescription("rm:provider:salt",              "under which names of the workload are signed away in tickets"),
    KeyDescription("rm:provider:due",               "zset: incidents sent to the provider, by when to send or ask again", "when the provider has closed it"),
    KeyDescription("rm:incident:{*}:provider",      "hash: what is sent to the provider of an incident, and what came back; or what it was told in answer", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:trackers:due",               "zset: `INCIDENT TRACKER` of tickets elsewhere, by when to send or ask again", "when nothing moves any more"),
    KeyDescription("rm:incident:{*}:tracker:*",     "hash: what is sent to a tracker of an incident, and what came back", CLOSED_RETENTION_TEXT),
    KeyDescription("rm:intake:heard:*",             "that a signed message was heard", "after 15 minutes"),
    KeyDescription("rm:intake:count:*",             "how many tickets a customer sent in an hour", "after that hour"),
    KeyDescription("rm:alerts:now:*",               "the episode of a cause in a channel", "some time after the last of its alerts (docs/alerts.md)"),
    KeyDescription("rm:alerts:places:*",            "set: the channels in which episodes of a cause go on", "8 days after the last of them began"),
    KeyDescription("rm:alerts:by:*",                "the episode of an alert", "8 days after it last changed"),
    KeyDescription("rm:alerts:of:*",                "hash: the alerts of an episode", "8 days after the last of them"),
    KeyDescription("rm:alerts:about:*",             "hash: cause and channel of an episode, which routes led there, and what its incident was told", "likewise"),
    KeyDescription("rm:alerts:newest:*",            "when the newest message of a group that another bot posts about was posted", "8 days later"),
    KeyDescription("rm:alerts:group:*",             "set: the alerts that another bot posted of a group", "8 days after the last of them"),
    KeyDescription("rm:alerts:in:*",                "set: the episodes that an incident heard of", "8 days after the last news of them"),
    KeyDescription("rm:alerts:left:*",              "hash: how many alerts of an episode a sender counts and does not list", "likewise"),
    KeyDescription("rm:alerts:opened:*",            "how many episodes began lately", "after 10 minutes"),
    KeyDescription("rm:heard:*",                    "that a signed message to our HTTP port was heard", "after a quarter of an hour"),
    KeyDescription("rm:courses",                    "hash: how each incident went", "with the ten thousandth after it"),
    KeyDescription("rm:courses:age",                "zset: these incidents, by when they were opened", "likewise"),
    KeyDescription("rm:feedback",                   "list: what people thought of diagnoses; the last ten thousand"),
    KeyDescription("rm:lessons",                    "hash: what closed incidents taught, drafts and what people decided about them; at most five hundred"),
    KeyDescription("rm:lessons:version",            "counter of its changes"),
    KeyDescription("rm:wakeups",                    "stream: wake-ups of incidents; the last ten thousand"),
    KeyDescription("rm:action-wakeups",             "stream: wake-ups of actions"),
)
# fmt: on
# Keys without an id. All long-lived data leaves at least one of them, so they show without a scan whether the store has
# data.
FIXED_KEYS = (f"{LEDGER_KEY_PREFIX}audit", *(row.form for row in KEY_TABLE if "*" not in row.form and row.form != VERSION_KEY))
