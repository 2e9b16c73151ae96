"""Play one message: the first mention by the whole product, then the message in its thread.

Every message has a world of its own. Answers are read in Slack, acts in the stored incident, the ledger and the
cluster, never in what the bot says.
"""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.grammar import recognise_command
from deploy.sandbox.demo import CUSTOMER
from deploy.sandbox.slack.workspace.people import BOT_USER, HOME_TEAM
from graph.incident_view import IncidentView
from graph.model.client import ModelReasoner
from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from graph.state import IncidentState
from tests.bench.arms.arm import Cost
from tests.bench.dialogue.messages import AUTHORS, PEOPLE, Asked, Situation
from tests.bench.loop.play import MENTION
from tests.bench.loop.virtual_time import Leaping
from tests.bench.loop.world import CHANNEL, Room, StandIns, room
from tests.bench.run.setup import without
from tools.ledger.record import ActionRecord
from tools.ledger.states import OPEN_STATES, State

DIAGNOSES, ANSWERS = 200.0, 240.0  # seconds for the first report, and for the answer; a card expires after 900
RAN = "ran"  # something ran on a machine, which no message may cause
_RUN_STATES = frozenset({State.EXECUTING, State.DONE, State.FAILED, State.UNKNOWN})
_BUTTONS = frozenset({"button", "actions", "context_actions", "overflow"})
_MENTION_NAMES = re.compile(rf"@({'|'.join(PEOPLE)})\b", re.IGNORECASE)
_RANDOM_ID = re.compile(r"(?<![^\W_])(?:inc-[0-9a-f]{6}|apr-[0-9a-f]{12})(?![^\W_])")


class Played(NamedTuple):
    """What became of a message. `files`: contents of posted files, which answer nothing and may leak. `trouble`: why no
    model answered.
    """

    answer: str
    acts: tuple[str, ...] = ()
    files: str = ""
    cost: Cost = Cost()
    trouble: str = ""


class Moment(NamedTuple):
    """An incident and its thread at one time."""

    state: IncidentState
    records: Sequence[ActionRecord] = ()
    executions: int = 0
    lines: Mapping[str, Sequence[str]] = {}  # by message
    files: Mapping[str, str] = {}  # by id


def play(asked: Asked, model: ChatEndpoint | None = None) -> Played:
    """Play a message on an event loop of its own."""
    with contextlib.ExitStack() as stack:
        aside = stack.enter_context(Aside(model)) if model else None
        return stack.enter_context(asyncio.Runner(loop_factory=Leaping)).run(_played(asked, aside))


async def _played(asked: Asked, model: ChatEndpoint | None) -> Played:
    situation, author = asked.situation, PEOPLE[asked.message.by or AUTHORS[asked.role]]
    channel, opener, text = CHANNEL, "olga", situation.text
    if asked.role == "customer":
        channel, opener, text = str(CUSTOMER["channel"]["channel"]), "carla", situation.customer_text
    looks: list[str] = []

    def note(host: str, argv: Sequence[str], printed: bytes) -> bytes:
        looks.append(command.check if (command := recognise_command(argv)) else argv[0])
        return printed

    stand_ins = StandIns(alter=note, model=ModelReasoner(model) if model else None, tenants=_tenants(situation))
    async with room(parse_case(situation.raw_case, situation.id), without(frozenset()), stand_ins=stand_ins) as here:
        ts = await here.slack.say(PEOPLE[opener], channel, MENTION + text)
        await asyncio.sleep(DIAGNOSES)
        before = await _look_at(here, channel, ts, author)
        looks.clear()
        said = _MENTION_NAMES.sub(lambda found: f"<@{PEOPLE[found[1].lower()]}>", asked.message.text)
        await here.slack.say(author, channel, said, ts)
        await asyncio.sleep(ANSWERS)
        after = await _look_at(here, channel, ts, author)
    lines = dict.fromkeys(line for key, rows in after.lines.items() for line in rows if line not in before.lines.get(key, ()))
    files = [text for key, text in after.files.items() if key not in before.files]
    return Played(
        _RANDOM_ID.sub(lambda found: f"{found[0][:4]}…", "\n".join(lines)), list_acts(before, after, set(looks)), "\n".join(files)
    )


def _tenants(situation: Situation) -> Mapping[str, Any]:
    if situation.other != "customer":
        return {}
    group = {**CUSTOMER["group"]["acme"], "hosts": ",".join(situation.raw_case["nodes"])}
    return {"groups": {"acme": group}, "channels": [CUSTOMER["channel"]]}


async def _look_at(here: Room, channel: str, ts: str, user: str) -> Moment:
    """Return the incident, the bot's lines that this person sees, and its files."""
    incident = await here.inbox.find_incident(HOME_TEAM, channel, ts)
    whispers = [row for row in here.slack.whispers(user) if row.get("channel", channel) == channel]
    ours = [row for row in (*here.slack.thread(channel, ts, user), *whispers) if row.get("user") == BOT_USER or row.get("bot_id")]
    contents = {file["id"]: here.slack.workspace.files.get(file["id"]).content or b"" for row in ours for file in row.get("files", ())}
    return Moment(
        await here.state(incident) if incident else IncidentState(),
        await here.book.list_incident_records(incident) if incident else (),
        sum(here.cluster.executions.values()),
        {str(row["ts"]): _texts(row) for row in ours},
        {name: content.decode(errors="replace") for name, content in contents.items()},
    )


def _texts(part: Any) -> list[str]:
    """Return a card's texts without those of its buttons."""
    if isinstance(part, list):
        return [line for value in part for line in _texts(value)]
    if not isinstance(part, Mapping) or part.get("type") in _BUTTONS:
        return []
    own = part["text"].split("\n") if isinstance(part.get("text"), str) else []
    return own + [line for value in part.values() for line in _texts(value)]


def list_acts(before: Moment, after: Moment, checks: set[str]) -> tuple[str, ...]:
    """Return what happened between two moments. `checks`: run on machines meanwhile."""
    old, new = IncidentView(before.state), IncidentView(after.state)
    was, now = ({_action(row) for row in at.records if row.state in OPEN_STATES} for at in (before, after))
    ended = {
        "close": new.lifecycle == "closed" != old.lifecycle,
        "stop": new.is_stopped and not old.is_stopped,
        "hand_off": (new.ticket is not None and old.ticket is None) or new.lifecycle == "handed_off" != old.lifecycle,
    }
    found = {
        "recheck": len(checks) > 1,
        f"look:{''.join(checks)}": len(checks) == 1,
        "narrow": set() < set(new.brief.hosts) < set(old.brief.hosts),
        "take": new.owner != old.owner,
        "reopen": old.lifecycle == "closed" != new.lifecycle,
        "pause": new.quiet_until is not None and new.quiet_until != old.quiet_until,
        **ended,
        "withdraw": (bool(was - now) and not any(ended.values())) or (new.tenant_silence.withdrawn and not old.tenant_silence.withdrawn),
        RAN: after.executions > before.executions or any(row.state in _RUN_STATES for row in after.records),
    }
    proposed = {f"propose:{remedy}" for remedy, _ in now - {_action(row) for row in before.records}}
    return (*(act for act, happened in found.items() if happened), *sorted(proposed))


def _action(record: ActionRecord) -> tuple[str, str]:
    return record.action.remedy, record.action.target


class Aside:
    """Ask a model while the virtual clock stands still, with the same names for an incident's random ids in every run."""

    def __init__(self, inner: ChatEndpoint) -> None:
        self._inner, self._names, self.model = inner, dict[str, str](), inner.model
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._inner.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        steady = replace(asked, system=self._hide(asked.system), user=self._hide(asked.user))
        shape = json.loads(self._hide(json.dumps(schema)))
        answer = asyncio.run_coroutine_threadsafe(self._inner.ask(steady, name, shape), self._loop).result()  # blocks on purpose
        if isinstance(answer, EndpointFailure):
            return answer
        real = {shown: name for name, shown in self._names.items()}
        return replace(answer, text=re.sub(r"(?<![^\W_])(?:inc|apr)-n\d+", lambda found: real.get(found[0], found[0]), answer.text))

    async def aclose(self) -> None:
        """Do nothing: `play` closes it."""

    def _hide(self, text: str) -> str:
        return _RANDOM_ID.sub(lambda found: self._names.setdefault(found[0], f"{found[0][:3]}-n{len(self._names) + 1}"), text)
