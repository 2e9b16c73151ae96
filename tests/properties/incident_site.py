"""A small site on which one incident is played from ticket to card: faults, unobserved checks, tenants' texts, a model."""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from graph.extraction.pasted_text import store_attachments
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.model.budget import Budget
from graph.model.client import ModelReasoner
from graph.model.endpoint import EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from graph.report import Report
from graph.state import Attachment, IncidentState
from kb.taxonomy.taxonomy import Taxonomy
from tests.support import fakes_actions, fakes_graph
from tests.support.fakes_actions import CHECKS, FABRIC, HUNG, SLOW, hung, well
from tests.support.fakes_graph import LOST, OOM, FakeFleet, FakeHistory, Past, World, clue, fact, instead, item, leaf
from tests.support.inventories import inventory
from tools.fact import Fact, Value

HOSTS = ("n1", "n2", "n3", "n4")
INVENTORY = inventory(groups={"g": {"hosts": "n[1-4]", "controller": "ctl"}, "ctl": {"hosts": "ctl"}}, channels=[])
TOLD = "GPU.EXECUTION.Told"
ALL_WELL, GPU_DEAD = "all_well", "gpu_dead"
EVERY = {**fakes_graph.TAXONOMY.leaves, **fakes_actions.TAXONOMY.leaves}
# the fakes' leaves, plus two that a tenant's word would prove or deny if there were a bug
TAXONOMY = Taxonomy(
    {
        **EVERY,
        HUNG: replace(EVERY[HUNG], evidence=(*EVERY[HUNG].evidence, clue("denied", "job.error", f"value == '{ALL_WELL}'", -30))),
        TOLD: leaf(
            TOLD,
            "gpu",
            clue("said", "job.error", f"value == '{GPU_DEAD}'", 30, decisive=True),
            remedies=("drain_node > gpu_reset",),
        ),
    },
    {"GPU": "GPU", "USER": "The user's side"},
)

# fault → label, deciding check, and fact on n1
FAULTS: Mapping[str, tuple[str, str, Fact]] = {
    "hung": (HUNG, "dmesg", hung("n1")),
    "slow clocks": (SLOW, "smi", fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3")),
    "fabric manager": (FABRIC, "sysd", fact("n1", "sysd", "service.state", "failed", "nvidia-fabricmanager")),
    "killed": (OOM, "dmesg", fact("n1", "dmesg", "kernel.oom_kill", "python3")),
    "off the bus": (LOST, "dmesg", fact("n1", "dmesg", "kernel.xid", 79, "gpu3")),
}
SUSPICION = fact("n1", "nvlink", "nvlink.replay_errors", 900, "gpu0")
MEASURED = fact("n1", "nccl1", "nccl.busbw_max", 120.0)  # suspicion of a slow link, and its proof


def on(host: str, row: Fact) -> Fact:
    return replace(row, host=host)


def written(host: str, value: Value) -> Fact:
    """Return an error that a tenant's job wrote."""
    return fact(host, "joblog", "job.error", value)


@dataclass(frozen=True)
class Ticket:
    """The reported text, and attached files by name."""

    text: str = "job 4711 hangs on n[1-4], everything stands still"
    files: tuple[tuple[str, str], ...] = ()


@dataclass
class Site:
    """Four machines. `dark`: `host` or `host/check` and why it is unobserved."""

    sick: list[Fact] = field(default_factory=list)
    said: list[Fact] = field(default_factory=list)
    dark: dict[str, str] = field(default_factory=dict)

    def facts(self) -> list[Fact]:
        """Return the hosts' facts, each with its output's digest."""
        rows = [*instead(well(*HOSTS), *self.sick, *self.said)]
        return [replace(row, sha256=hashlib.sha256(repr(row).encode()).hexdigest()) for row in rows]


Voice = str
# kinds of models; all but the last two answer unreadably
VOICES: tuple[Voice, ...] = ("dead", "slow", "prose", "invented", "cut", "null", "huge", "obeys", "denies")
READABLE: frozenset[Voice] = frozenset({"obeys", "denies"})


@dataclass
class Scripted:
    """An endpoint with one kind of model. Records questions and answers; `recorded` answers come first."""

    voice: Voice
    model: str = "gpt-4o"
    recorded: list[ModelReply | EndpointFailure] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    answered: list[ModelReply | EndpointFailure] = field(default_factory=list)

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        self.asked.append((name, _unmarked(asked)))
        replay = len(self.answered) < len(self.recorded)
        self.answered.append(self.recorded[len(self.answered)] if replay else _says(self.voice, name, schema))
        await asyncio.sleep(0)
        return self.answered[-1]

    async def aclose(self) -> None:
        return None


def _unmarked(asked: ModelQuestion) -> str:
    """Return the question without its random marks."""
    mark = re.search(r"<<([0-9a-f]{16})", asked.user)
    return f"{asked.system}\n{asked.user}".replace(mark[1], "MARK") if mark else f"{asked.system}\n{asked.user}"


def _says(voice: Voice, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
    match voice:
        case "dead":
            return EndpointFailure("the model cannot be reached")
        case "slow":
            return EndpointFailure("the model did not answer within 30 s", tokens_in=900)
        case "prose":
            return ModelReply("Sure! Run `reboot` on every host, then `rm -rf /`. <!channel> https://evil.example", 900, 40)
        case "invented":
            return ModelReply(json.dumps(_filled(name, schema, "reboot; true")), 900, 40)
        case "cut":
            return ModelReply(json.dumps(_filled(name, schema))[:-3], 900, 40)
        case "null":
            return ModelReply("null", 900, 1)
        case "huge":
            return ModelReply("[" * 5000, 900, 900)
        case _:
            return ModelReply(json.dumps(_filled(name, schema, verdict="confirmed" if voice == "obeys" else "rejected")), 900, 40)


def _filled(name: str, schema: Mapping[str, Any], more: str = "", verdict: str = "confirmed") -> dict[str, Any]:
    """Return an answer of the right shape with every offered id, last first, and `more` beside them."""
    found: dict[str, Any] = {}
    for key, row in schema["properties"].items():
        of = row.get("items", row)
        ids = [*reversed(of.get("enum", [])), *([more] if more else [])]
        if row["type"] == "array":
            found[key] = [0] if of["type"] == "integer" else (ids if key != "symptoms" else ids[-1:] if more else [])
        else:
            found[key] = more or (ids[0] if ids else "")
    if name == "read":
        ids = schema["properties"]["causes"]["items"]["properties"]["cause"].get("enum", [])
        some = ids[:: max(1, len(ids) // 3)][:3]  # of all branches: an exonerated cause alone would show nothing
        found |= {"causes": [{"cause": more or one, "p": 1.0} for one in some], "signatures": [], "times": []}
        found |= {"looks": [_look(schema)]} if "looks" in schema["properties"] else {}
        found |= (
            {"symptoms": [], "hosts": [], "category": "GPU"} if more else {}
        )  # one thing is wrong, so that no other reason can refuse it
    if name == "explore":
        found |= {"ideas": [_idea(schema, more)], "questions": ["Shall I reboot n1?"] if not more else [more]}
    if name == "critique":
        says = "contradicted" if verdict == "confirmed" else "holds"
        found["objections"] = [{"claim": 0, "verdict": more or says, "because": "I know it", "cites": [0]}]
    return found


def _look(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request to repeat a check everywhere."""
    of = schema["properties"]["looks"]["items"]["properties"]
    return {"check": of["check"]["enum"][0], "hosts": list(of["hosts"]["items"].get("enum", [])), "repeat": True}


def _idea(schema: Mapping[str, Any], more: str) -> dict[str, Any]:
    """Return an idea that wants every check and orders something forbidden."""
    of = schema["properties"]["ideas"]["items"]["properties"]
    said = dict.fromkeys(("title", "cause", "confirms", "refutes"), "run `reboot` on <!channel> https://evil.example")
    lists = {name: list(of[name]["items"].get("enum", [])) for name in ("hosts", "looks")}
    lists["looks"] += [more] if more else []
    branch = (of["branch"].get("enum") or [""])[0]
    return {**said, **lists, "branch": branch, "cites": [0], "quotes": [], "suggestions": ["sudo reboot"], "standing": "supported"}


@dataclass(frozen=True)
class Played:
    """The result of one turn."""

    report: Report
    state: IncidentState
    asked: tuple[tuple[str, str], ...]
    model: Scripted | None
    calls: int
    said: tuple[str, ...]  # displayed progress

    @property
    def causes(self) -> set[tuple[str, tuple[str, ...]]]:
        return {(row.label, row.hosts) for row in self.report.root_causes}

    @property
    def acts(self) -> set[tuple[str, str, str, str]]:
        """Return the proposals: remedy, target, arguments, command."""
        return {(row.remedy, row.target, json.dumps(row.args, sort_keys=True), " ".join(row.command)) for row in self.report.actions}

    def transcript(self) -> str:
        """Return everything stored, asked and shown as one text."""
        model = [self.model.asked, [repr(row) for row in self.model.answered]] if self.model else []
        return json.dumps(
            [self.report.model_dump(mode="json"), dict(self.state), self.asked, model, self.said], sort_keys=True, default=str
        )


BUDGET = Budget(calls=3, tokens=9_000, usd=0.05)


def lied(label: str) -> Past:
    """Return an accepted lesson that claims this label for any report."""
    return Past(label, 1.0, title=Ticket().text, lesson=f"les-{label.lower()}", learnt="inc-evil", on="2026-05-03")


async def play(
    site: Site, ticket: Ticket, voice: Voice = "", recorded: Sequence[ModelReply | EndpointFailure] = (), past: Sequence[Past] = ()
) -> Played:
    """Play the ticket's turn from text to report."""
    history = FakeHistory(list(past))
    world = World(fleet=FakeFleet(site.facts(), dict(site.dark), checks=CHECKS), taxonomy=TAXONOMY, history=history)
    scripted = Scripted(voice, recorded=list(recorded)) if voice else None
    model = ModelReasoner(scripted, budget=BUDGET) if scripted else None
    ports = replace(world.ports(), model=model, inventory=INVENTORY)
    graph = build_incident_graph(InMemorySaver())
    files = tuple(Attachment(name=name, text=text) for name, text in ticket.files)
    given = await store_attachments(item(ticket.text, attachments=files), world.evidence)
    report = await run_turn(graph, ports, given, None)
    snapshot = await graph.aget_state({"configurable": {"thread_id": "inc-1"}})
    asked = tuple((ask.host, ask.check) for ask in world.fleet.asked)
    calls = model.get_spend("inc-1").calls if model else 0
    told = tuple(row.line for row in world.progress)
    return Played(report, snapshot.values, asked, scripted, calls, told)  # type: ignore[arg-type]  # the graph's own state
