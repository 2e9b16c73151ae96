"""Twelve incidents of simulated clusters with their cards: diagnosis, and the first action to approve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from bot.app.diagnosis_runtime import DiagnosisRuntime, open_diagnosis_runtime
from bot.cards.blocks import Card
from bot.incidents.cards import diagnosis, handoff_card, incident_card
from bot.incidents.cards.handoff_content import build_handoff
from bot.incidents.cards.incident_card import IncidentCardView
from bot.incidents.cards.incident_status import get_incident_status
from bot.incidents.publishing.status_messages import get_findings_so_far
from bot.policy.approvals import build_terms
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards import side_effects
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.settings import load_settings
from deploy.sandbox.cluster.access.case_run import CaseRun, build_case_run
from deploy.sandbox.cluster.cases.reader import parse_case
from graph.checkpoints.checkpoint import build_plain_serde
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.incident_view import IncidentView
from graph.remediation.fault_condition import get_step_precondition
from graph.report import Report
from graph.state import Attachment, InboxItem, IncidentState, Origin, Remediation
from tools.action import Action
from tools.execution.build import ActionRequest, HostIdentity, build_action, compute_catalogue_hash, find_execution_host
from tools.execution.conditions import read_process_start
from tools.execution.delete_preview import preview_delete
from tools.execution.dry_run import preview_conditions
from tools.execution.identity import read_boot_id
from tools.execution.node_jobs import read_node_jobs
from tools.fact import Fact
from tools.ledger.record import ActionRecord
from tools.ledger.states import State
from tools.remedies import REMEDIES

INCIDENT, GROUP = "inc-5a17e0", "S0GPUAPPR"
APPROVERS = frozenset({"T0RACK:U0PRIYA", "T0RACK:U0ANTON"})
NODES = [f"gpu-{n:03}" for n in range(1, 5)]
MANY = [f"gpu-{n:03}" for n in range(1, 61)]

# a name and case for each; `then` is a later click
CASES: Mapping[str, dict[str, Any]] = {
    "GPU": {"faults": [{"id": "G07", "node": "gpu-003", "gpu": 7}], "text": "job 4711 hangs with NCCL timeout on gpu-[001-004]"},
    "network": {
        "faults": [{"id": "N05", "node": "gpu-002", "args": {"hca": "mlx5_3"}}],
        "text": "all-reduce on gpu-[001-004] is half as fast as yesterday",
    },
    "storage": {"faults": [{"id": "S13", "node": "gpu-004"}], "text": "checkpoints fail with errors on gpu-[001-004]"},
    "several causes": {
        "faults": [{"id": "S01", "node": "gpu-001"}, {"id": "G03", "node": "gpu-002", "gpu": 0}, {"id": "S19", "node": "gpu-003"}],
        "text": "is_available() comes back false on part of gpu-[001-004]",
    },
    "no fault": {"faults": [], "modifiers": ["H03(gpu=0)@gpu-003"], "text": "my training does not work. gpu-[001-004]"},
    "no cause found": {"faults": [{"id": "N15", "node": "gpu-002"}], "text": "training on gpu-[001-004] is slow"},
    "one host asked": {"faults": [{"id": "G17", "node": "gpu-003", "gpu": 2}], "text": "is gpu-002 healthy? job 4711"},
    "60 hosts": {"nodes": MANY, "faults": [{"id": "G18", "node": "*"}], "text": "everything on gpu-[001-060] is slow since this morning"},
    "long evidence": {
        "faults": [{"id": "S01", "node": "gpu-002"}],
        "modifiers": ["R2(lines=3000)@gpu-001", "R3(gpu=6)@gpu-004"],
        "text": "ranks of gpu-[001-004] die one after the other, smells like infiniband",
    },
    "process to end": {
        "faults": [{"id": "S18", "node": "gpu-002", "gpu": 3}],
        "text": "CUDA out of memory on gpu-[001-004] although the job is small",
    },
    "long command": {"faults": [{"id": "S10", "node": "gpu-002"}], "text": "ranks of gpu-[001-004] die one after the other"},
    "handed over": {
        "faults": [{"id": "N01", "node": "gpu-002", "gpu": 1}, {"id": "S08", "node": "gpu-003"}],
        "text": "nccl hangs at the first all-reduce on gpu-[001-004]",
        "then": "hand_off",
    },
}


@dataclass(frozen=True, slots=True)
class Seen:
    name: str
    state: IncidentState
    report: Report
    diagnosis: Card
    approval: Card | None  # first action to decide
    answer: Card | None  # answer of a later turn, in its own message
    ticket: Card | None

    @property
    def cards(self) -> list[Card]:
        """Return the cards in the thread's order."""
        return [card for card in (self.diagnosis, self.approval, self.answer, self.ticket) if card is not None]


async def seen_of(name: str) -> Seen:
    """Diagnose one case in this process and build its first approval card."""
    case = CASES[name]
    raw = {"id": "cards", "profile": "dgx-h100-8", "nodes": case.get("nodes", NODES), "faults": case["faults"]}
    raw |= {"modifiers": case.get("modifiers", []), "ticket": {"channel": "slack", "author": "U0OLGA", "text": case["text"]}}
    stage = build_case_run(parse_case(raw), controller="slurm-controller")
    async with open_diagnosis_runtime(
        load_settings(environ={}), transport=stage.transport, inventory=stage.inventory, clock=stage.clock
    ) as world:
        state, report = await _turns(world, stage, case)
        rows = IncidentView(state)
        ladder = next((row for row in rows.remediations if row.is_open and row.waiting_for == "approval" and row.current_step), None)
        facts = await world.services.evidence.get_facts(state.get("facts", "")) if state.get("facts") else []
        shown = await _approval(world, stage, ladder, facts) if ladder else None
        titles = {leaf.label: leaf.title for leaf in world.services.taxonomy.leaves.values()}
        handed = handoff_card.render_ticket(build_handoff(state), titles) if rows.ticket else None
        stands = get_incident_status(rows, [shown.record] if shown else [])
        told = incident_card.render_incident_card(
            IncidentCardView(INCIDENT, get_findings_so_far(report), rows.stats, stands, titles=titles)
        )
        answer = diagnosis.render_diagnosis(INCIDENT, report, titles=titles) if report.reply else None
        return Seen(name, state, report, told, approval.render_approval_card(shown) if shown else None, answer, handed)


async def _turns(world: DiagnosisRuntime, stage: CaseRun, case: Mapping[str, Any]) -> tuple[IncidentState, Report]:
    graph = build_incident_graph(InMemorySaver(serde=build_plain_serde()))
    files = tuple(Attachment(name=name, text=text) for name, text in stage.attachments)
    item = InboxItem(id="T0RACK.C0GPUINC.1", kind="mention", incident=INCIDENT, at=stage.clock.now(), user="U0OLGA", text=stage.text)
    origin = Origin(kind="slack", team="T0RACK", channel="C0GPUINC", thread_ts="1", user="U0OLGA")
    report = await run_turn(graph, world.services.build_graph_context(), item.model_copy(update={"attachments": files}), origin)
    if kind := case.get("then"):
        report = await run_turn(
            graph, world.services.build_graph_context(), item.model_copy(update={"id": "T0RACK.C0GPUINC.2", "kind": kind, "text": ""})
        )
    snapshot = await graph.aget_state(RunnableConfig(configurable={"thread_id": INCIDENT}))
    state: IncidentState = snapshot.values  # type: ignore[assignment]  # LangGraph types its values as any mapping
    return state, report


async def _approval(world: DiagnosisRuntime, stage: CaseRun, ladder: Remediation, facts: Sequence[Fact]) -> ApprovalCardView:
    """Return the approval card of the remediation's current step, built as the proposer does."""
    action, host = await _action(world, ladder), world.services.inventory.hosts[ladder.target]
    agreed = build_terms(action, host.group, 60, drained=False, job_stalled=False, approvers=APPROVERS)
    now = stage.clock.now()
    record = ActionRecord(action, agreed, State.PENDING, (), now, now + timedelta(seconds=agreed.decide_seconds))
    looked = await preview_conditions(action, world.transport, controller=host.controller)
    deletes = await preview_delete(action, world.transport)
    jobs = await read_node_jobs(action, world.services.inventory, world.transport)
    known = [
        *(side_effects.build_job_rows(jobs) if jobs else ()),
        *(side_effects.build_file_rows(deletes) if deletes else side_effects.build_process_rows(action, facts)),
    ]
    return ApprovalCardView(record, group=GROUP, condition_results=looked, seen_at=now, known_rows=known)


async def _action(world: DiagnosisRuntime, ladder: Remediation) -> Action:
    rung, hosts = ladder.current_step, world.services.inventory.hosts
    assert rung is not None
    target = hosts[ladder.target]
    via = find_execution_host(REMEDIES[rung.remedy], target, hosts)
    started = await read_process_start(rung.args["pid"], target.name, world.transport) if "ticks" in rung.args else None
    args = {**rung.args, "ticks": started.saw} if started else rung.args
    wanted = ActionRequest(rung.remedy, args, INCIDENT, ladder.label, rung.devices, fault=get_step_precondition(ladder))
    seen = HostIdentity(await read_boot_id(via.name, world.transport))
    made = build_action(wanted, target, via, seen, policy="f2c9" * 4, catalogue=compute_catalogue_hash(), approval=ladder.approval)
    return replace(made, approval=ladder.approval)
