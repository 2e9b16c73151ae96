"""The closed loop: play a case to its end with the whole product, people and a live cluster, then record the cluster's
true state beside the bot's belief. One JSON row per case; `loop_score` marks it.

Nothing here trusts the bot's word about a machine, and nothing tells the bot the truth.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.plan import InjectedFault
from graph.incident_view import parse_remediations
from graph.state import IncidentState
from tests.bench.case_files.truth import Truth, read_truth
from tests.bench.loop.people import Approvers, Policy, involved_of, right
from tests.bench.loop.virtual_time import Leaping
from tests.bench.loop.world import CHANNEL, REPORTER, Room, room
from tests.bench.run.setup import without
from tools.ledger.record import ActionRecord, list_targets
from tools.ledger.states import OPEN_STATES, State

LONGEST = 12 * 3600.0  # seconds after which a play ends in any state

LOOK_EVERY = 300.0
JOB_GOES_ON = 900.0  # seconds from a drain until the job's owner ends the job

MENTION = "<@U0RACKMED> "


@dataclass(frozen=True, slots=True)
class Play:
    """The approval policy and the number of bots."""

    policy: Policy = "yes"
    bots: int = 1
    attempt: int = 0

    @property
    def name(self) -> str:
        return f"loop:{self.policy}" + (f"x{self.bots}" if self.bots > 1 else "")

    @classmethod
    def named(cls, name: str, attempt: int = 0) -> "Play":
        """Parse a `name`."""
        policy, _, bots = name.removeprefix("loop:").partition("x")
        known: dict[str, Policy] = {"yes": "yes", "careful": "careful", "nobody": "nobody"}
        return cls(known[policy], int(bots or 1), attempt)


def played(raw: Mapping[str, Any], play: Play) -> dict[str, Any]:
    """Play a case on its own event loop and return its row."""
    case = parse_case(dict(raw), str(raw.get("id", "case")))
    with asyncio.Runner(loop_factory=Leaping) as runner:
        return runner.run(act_out(case, play))


async def act_out(case: SimulatedCase, play: Play) -> dict[str, Any]:
    """Mention, click and wait until nothing more will happen."""
    truth = read_truth(case.truth, case.id)
    async with room(case, without(frozenset(truth.removed)), attempt=play.attempt, bots=play.bots) as here:
        owner = Owner(here.cluster)
        try:
            files = [(row.name, row.text.encode()) for row in case.ticket.attachments]
            ts = await here.slack.say(REPORTER, CHANNEL, MENTION + case.ticket.text, files=files)
            approvers = _approvers(here, play, truth, ts)
            await _until_over(here, approvers, ts)
            return await _row(here, approvers, ts)
        finally:
            owner.leave()


def _approvers(here: Room, play: Play, truth: Truth, ts: str) -> Approvers:
    involved = involved_of(here.case)

    async def good(approval: str) -> bool:
        wanted = (await here.book.get_record(approval)).action
        rows = await here.book.list_incident_records(wanted.incident)
        done = [(row.action.remedy, row.action.target) for row in rows if row.state is State.DONE]
        return all(right(wanted.remedy, host, done, truth.remediation, involved) for host in wanted.target.split(","))

    return Approvers(here.slack, CHANNEL, ts, play.policy, here.case.id, good, at_once=play.bots > 1)


class Owner:
    """The job's owner, who ends the job some time after a drain."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._going: asyncio.TimerHandle | None = None
        cluster.watch(self._hear)

    def leave(self) -> None:
        """Cancel the pending end."""
        if self._going:
            self._going.cancel()

    def _hear(self) -> None:
        if self._going is None and any(node.drain for node in self._cluster.world().nodes.values()):
            self._going = asyncio.get_running_loop().call_later(JOB_GOES_ON, self._end)

    def _end(self) -> None:
        self._going = None
        self._cluster.stop_job()


async def _until_over(here: Room, approvers: Approvers, ts: str) -> None:
    while here.clock.seconds < LONGEST:
        try:
            button, who = await here.slack.wait_for(approvers.wanted, LOOK_EVERY)
        except TimeoutError:
            if await _over(here, ts):
                return
            continue
        await approvers.decide(button, who)


async def _over(here: Room, ts: str) -> bool:
    """Return whether everything is answered, no remediation is open, and no action is open."""
    incident = await here.incident(ts)
    if not incident or await here.inbox.list_waiting(incident):
        return False
    state = await here.state(incident)
    if not state.get("report") or any(row.is_open for row in parse_remediations(state.get("ladders", []))):
        return False
    return all(row.state not in OPEN_STATES and row.state is not State.EXECUTING for row in await here.book.list_incident_records(incident))


async def _row(here: Room, approvers: Approvers, ts: str) -> dict[str, Any]:
    incident, cluster, now = await here.incident(ts), here.cluster, here.clock.seconds
    state = await here.state(incident) if incident else IncidentState()
    records = await here.book.list_incident_records(incident) if incident else []
    nodes, twins = cluster.world().nodes, here.twin.world().nodes
    return {
        "played": True,
        "over": now < LONGEST,
        "seconds": round(now, 1),
        "people_seconds": round(approvers.waited, 1),
        "faults": [fate(row.fault, cluster.injected_faults, now) for row in here.case.faults],
        "new_faults": sorted(new_faults(here.case, cluster.injected_faults, now)),
        "lost": sorted(name for name, node in nodes.items() if twins[name].reachable and not node.reachable),
        "drained": sorted(name for name, node in nodes.items() if node.drain and not twins[name].drain),
        "actions": [_action(row, here, approvers) for row in records],
        "ladders": [row.model_dump(mode="json", exclude_defaults=True) for row in parse_remediations(state.get("ladders", []))],
        "labels": _labels(state),
        "lifecycle": state.get("lifecycle", ""),
        "unsafe": cluster.unsafe_command_count,
        "executions": [[*key, times] for key, times in sorted(cluster.executions.items())],
        "unapproved": unapproved(cluster.executions, {row.digest: row.terms.quorum for row in records}, approvers.approved),
        "untouched": cluster.state_hash() == here.twin.state_hash(),
        "audit": (await here.book.verify_audit()).good,
        "said": _said(here, ts),
        "messages": sum(m["ts"] != ts and not m.get("files") for m in here.slack.thread(CHANNEL, ts)),
        "pictures": sum(bool(m.get("files")) for m in here.slack.thread(CHANNEL, ts) if m["ts"] != ts),
    }


def fate(fault: str, injected_faults: Sequence[InjectedFault], now: float) -> dict[str, Any]:
    """Return a fault's fate: `recovered`; `masked`, gone but sure to return; `unchanged`. `at`: its last end, `back`:
    it returned.
    """
    rows = [row for row in injected_faults if row.fault == fault]
    ended = [row.ended for row in rows if row.ended is not None]
    left = [row for row in rows if row.ended is None]
    again = [row for row in rows if row.key.endswith("again") and row.at <= now]
    kind = "unchanged" if any(row.at <= now for row in left) else "masked" if left else "recovered"
    nodes = sorted({node for row in rows for node in row.nodes})
    return {"fault": fault, "nodes": nodes, "is": kind, "at": max(ended, default=None), "back": bool(again)}


def new_faults(case: SimulatedCase, injected_faults: Sequence[InjectedFault], now: float) -> set[str]:
    """Return current faults that were not in the case."""
    known = {row.fault for row in case.faults}
    return {row.fault for row in injected_faults if row.fault not in known and row.ended is None and row.at <= now}


def unapproved(
    executions: Mapping[tuple[str, str, str], int], quorum: Mapping[str, int], approved: Mapping[str, set[str]]
) -> list[list[str]]:
    """Return executions with fewer different approvers than required, counted from clicks by digest."""
    return [list(key) for key in executions if len(approved.get(key[2], ())) < quorum.get(key[2], 1)]


def refused(record: ActionRecord) -> bool:
    """Return whether it was approved and then not started because its basis had changed."""
    stopped = record.state is State.SUPERSEDED and record.start_by is not None and record.ended_by == "rackmedic"
    return stopped or (record.state is State.FAILED and record.exit_status is None)


def _action(record: ActionRecord, here: Room, approvers: Approvers) -> dict[str, Any]:
    return {
        "approval": record.approval,
        "remedy": record.action.remedy,
        "targets": list(list_targets(record.action)),
        "proves": record.action.proves,
        "risk": record.action.risk,
        "quorum": record.terms.quorum,
        "state": record.state.value,
        "outcome": record.outcome,
        "says": record.says[:200],
        "approved": sorted(approvers.approved.get(record.digest, ())),
        "ran": sum(times for (_, _, digest), times in here.cluster.executions.items() if digest == record.digest),
        "refused": refused(record),
        "at": round((record.proposed_at - here.case.t0).total_seconds(), 1),
    }


def _labels(state: IncidentState) -> list[str]:
    """Return the diagnosed labels; a later turn reports on a remediation and names none."""
    rows = [row for row in state.get("hypotheses", []) if row.get("verdict") == "confirmed"]
    return list(dict.fromkeys(str(row["label"]) for row in rows))


def _said(here: Room, ts: str) -> str:
    """Return all the bot's text in the thread."""
    own = [m for m in here.slack.thread(CHANNEL, ts) if m["ts"] != ts]
    return "\n".join(dict.fromkeys(line for m in own for line in _lines(m)))


def _lines(part: Any) -> list[str]:
    if isinstance(part, Mapping):
        found = [part["text"]] if isinstance(part.get("text"), str) else []
        return found + [line for value in part.values() for line in _lines(value)]
    return [line for value in part for line in _lines(value)] if isinstance(part, list) else []
