"""Play one message: the first mention by the whole product, then the message in its thread.

Every message has a world of its own. Answers are read in Slack, acts in the stored incident, the ledger and the
cluster, never in what the bot says.
"""

import asyncio
import contextlib
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.grammar import recognise_command
from deploy.sandbox.demo import CUSTOMER
from deploy.sandbox.slack.workspace.people import BOT_USER, HOME_TEAM
from graph.incident_view import IncidentView
from graph.model.client import ModelReasoner
from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from graph.state import IncidentState
from tests.bench.dialogue.messages import AUTHORS, PEOPLE, Asked
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
_RANDOM_ID = re.compile(r"\b(?:inc-[0-9a-f]{6}|apr-[0-9a-f]{12})\b")


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a message."""

    answer: str
    acts: tuple[str, ...] = ()
    files: str = ""  # contents of files that the bot posted; they answer nothing, and may leak
    reacted: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """An incident at one moment."""

    state: IncidentState
    records: Sequence[ActionRecord] = ()
    executions: int = 0


def play(asked: Asked, model: ChatEndpoint | None = None) -> Played:
    """Play a message on an event loop of its own."""
    with contextlib.ExitStack() as stack:
        aside = stack.enter_context(Aside(model)) if model else None
        return stack.enter_context(asyncio.Runner(loop_factory=Leaping)).run(_played(asked, aside))


async def _played(asked: Asked, model: ChatEndpoint | None) -> Played:
    situation, customer = asked.situation, asked.role == "customer"
    channel, opener, text = (
        (str(CUSTOMER["channel"]["channel"]), "carla", situation.customer_text) if customer else (CHANNEL, "olga", situation.text)
    )
    looks: list[tuple[str, str]] = []

    def note(host: str, argv: Sequence[str], printed: bytes) -> bytes:
        looks.append((host, command.check if (command := recognise_command(argv)) else argv[0]))
        return printed

    stand_ins = StandIns(alter=note, model=ModelReasoner(model) if model else None, tenants=_tenants(situation.nodes, situation.other))
    async with room(parse_case(situation.raw_case, situation.id), without(frozenset()), stand_ins=stand_ins) as here:
        ts = await here.slack.say(PEOPLE[opener], channel, MENTION + text)
        await asyncio.sleep(DIAGNOSES)
        incident = await here.inbox.find_incident(HOME_TEAM, channel, ts) or ""
        author = PEOPLE[asked.message.by or AUTHORS[asked.role]]
        before, shown, seen = await _stored(here, incident), _shown(here, channel, ts, author), len(looks)
        files_before = _files(here, channel, ts)
        said = _MENTION_NAMES.sub(lambda found: f"<@{PEOPLE[found[1].lower()]}>", asked.message.text)
        reply = await here.slack.say(author, channel, said, ts)
        await asyncio.sleep(ANSWERS)
        after = _shown(here, channel, ts, author)
        lines = [line for key, rows in after.items() for line in rows if line not in shown.get(key, ())]
        acts = list_acts(before, await _stored(here, incident), {check for _, check in looks[seen:]})
        files = "\n".join(text for key, text in _files(here, channel, ts).items() if key not in files_before)
        return Played("\n".join(dict.fromkeys(lines)), acts, files, _has_reaction(here, channel, ts, reply))


def _tenants(nodes: Sequence[str], other: str) -> Mapping[str, Any]:
    if other != "customer":
        return {}
    return {"groups": {"acme": {**CUSTOMER["group"]["acme"], "hosts": ",".join(nodes)}}, "channels": [CUSTOMER["channel"]]}


async def _stored(here: Room, incident: str) -> Stored:
    records = await here.book.list_incident_records(incident) if incident else []
    state = await here.state(incident) if incident else IncidentState()
    return Stored(state, records, sum(here.cluster.executions.values()))


def list_acts(before: Stored, after: Stored, checks: set[str]) -> tuple[str, ...]:
    """Return what happened between two moments. `checks`: run on machines meanwhile."""
    old, new = IncidentView(before.state), IncidentView(after.state)
    was, now = ({_action(row): row for row in at.records if row.state in OPEN_STATES} for at in (before, after))
    asked_before = {_action(row) for row in before.records}
    kept, hosts = set(new.brief.hosts), set(old.brief.hosts)
    ended = {
        "close": new.lifecycle == "closed" != old.lifecycle,
        "stop": new.is_stopped and not old.is_stopped,
        "hand_off": (new.ticket is not None and old.ticket is None) or new.lifecycle == "handed_off" != old.lifecycle,
    }
    withdrawn = any(action not in now for action in was) and not any(ended.values())
    found = {
        "recheck": len(checks) > 1,
        f"look:{''.join(checks)}": len(checks) == 1,
        "narrow": bool(kept) and kept < hosts,
        "take": new.owner != old.owner,
        "reopen": old.lifecycle == "closed" != new.lifecycle,
        "pause": new.quiet_until is not None and new.quiet_until != old.quiet_until,
        **ended,
        "withdraw": withdrawn or (new.tenant_silence.withdrawn and not old.tenant_silence.withdrawn),
        RAN: after.executions > before.executions or any(row.state in _RUN_STATES for row in after.records),
    }
    proposed = sorted({f"propose:{remedy}" for remedy, target in now if (remedy, target) not in asked_before})
    return (*(act for act, happened in found.items() if happened), *proposed)


def _action(record: ActionRecord) -> tuple[str, str]:
    return record.action.remedy, record.action.target


def _shown(here: Room, channel: str, ts: str, user: str) -> Mapping[str, Sequence[str]]:
    """Return the bot's lines by message, with those that only this person sees."""
    whispers = (row for row in here.slack.whispers(user) if row.get("channel", channel) == channel)
    return {str(row["ts"]): _texts(row) for row in (*here.slack.thread(channel, ts, user), *whispers) if _is_ours(row)}


def _files(here: Room, channel: str, ts: str) -> Mapping[str, str]:
    ids = [str(file["id"]) for row in here.slack.thread(channel, ts) if _is_ours(row) for file in row.get("files", ())]
    return {one: (here.slack.workspace.files.get(one).content or b"").decode(errors="replace") for one in ids}


def _is_ours(row: Mapping[str, Any]) -> bool:
    return row.get("user") == BOT_USER or bool(row.get("bot_id"))


def _texts(part: Any) -> list[str]:
    """Return a card's texts without those of its buttons."""
    if isinstance(part, list):
        return [line for value in part for line in _texts(value)]
    if not isinstance(part, Mapping) or part.get("type") in _BUTTONS:
        return []
    own = part["text"].split("\n") if isinstance(part.get("text"), str) else []
    return own + [line for value in part.values() for line in _texts(value)]


def _has_reaction(here: Room, channel: str, root: str, ts: str) -> bool:
    return any(row["ts"] == ts and row.get("reactions") for row in here.slack.thread(channel, root))


class Aside:
    """Ask a model while the virtual clock stands still, with the same names for an incident's random ids in every run."""

    def __init__(self, inner: ChatEndpoint) -> None:
        self._inner, self._names = inner, dict[str, str]()
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

    @property
    def model(self) -> str:
        return self._inner.model

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        steady = ModelQuestion(self._hide(asked.system), self._hide(asked.user), asked.sample)
        waiting = asyncio.run_coroutine_threadsafe(self._inner.ask(steady, name, _mapped(schema, self._hide)), self._loop)
        answer = waiting.result()  # blocks the loop on purpose
        if isinstance(answer, EndpointFailure):
            return answer
        return ModelReply(self._restore(answer.text), answer.tokens_in, answer.tokens_out, answer.by)

    async def aclose(self) -> None:
        """Do nothing: `play` closes it."""

    def _hide(self, text: str) -> str:
        return _RANDOM_ID.sub(lambda found: self._names.setdefault(found[0], f"{found[0][:3]}-n{len(self._names) + 1}"), text)

    def _restore(self, text: str) -> str:
        for real, shown in self._names.items():
            text = re.sub(rf"\b{shown}\b", real, text)
        return text


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_mapped(part, change) for part in value]
    return change(value) if isinstance(value, str) else value
