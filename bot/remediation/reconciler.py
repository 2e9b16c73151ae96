"""Reconcile an incident's remediations between turns: propose steps, poll waits, verify cures.

The stored remediations say what is wanted. The reconciler makes the ledger and the hosts agree, and sends events to the
inbox. It changes no remediation itself and is idempotent.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from bot.incidents.dispatch.lease import Leases
from bot.refusal import Refusal
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import EventDelivery, IncidentStateLoader
from bot.remediation.proposer import DRAIN_REASON_PREFIX, ProposalDeferred, Proposer
from bot.remediation.waves import WaveScheduler
from graph.checkpoints.fence import LostLease
from graph.execution.action_effects import estimate_claim_time, has_started
from graph.execution.verification import ActionVerifier
from graph.incident.lifecycle import is_all_cured
from graph.incident.remediations import QUIET_EVENT
from graph.incident_view import IncidentView
from graph.remediation.build import NODE_EMPTYING_REMEDIES
from graph.remediation.drained_nodes import is_returning
from graph.remediation.fault_condition import get_step_precondition
from graph.remediation.state_machine import IN_SERVICE_EVENT, SCHEDULER_OBSERVED_EVENT, SCHEDULER_UNOBSERVED_EVENT
from graph.state import IncidentState, Remediation
from tools.clock import Clock
from tools.evidence import EvidenceStore
from tools.execution.conditions import ConditionResult
from tools.execution.drain_status import read_drain_reason, read_drain_status
from tools.execution.identity import read_boot_id
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, DuplicateAction, NotFound, NotOpen, Refused, WrongDigest
from tools.ledger.states import OPEN_STATES, TERMINAL_STATES, State, Transition
from tools.transport import Unreachable

# Check whether the scheduler still has drained nodes out of service, since an operator may return one by hand.
#
# Only a state in which jobs may run counts as returned. If the scheduler does not answer, only that is reported.

# `sinfo -o %T` states, and `schedulable` for an uncordoned Kubernetes node. Down, drained, maintenance or not answering
# (`*`) is not in service.
IN_SERVICE_STATES = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved", "schedulable"})


def is_resting_drained(remediation: Remediation) -> bool:
    """Return whether the node is drained and no step but its return is left to run."""
    return remediation.drained and (not remediation.is_open or is_returning(remediation))


@dataclass(frozen=True, slots=True)
class DrainedNodeMonitor:
    """Reports changes of drained nodes to the incident's inbox, once a turn."""

    ledger: Ledger
    event_delivery: EventDelivery
    proposer: Proposer
    clock: Clock

    async def check_drained_nodes(
        self, incident: str, state: IncidentState, remediations: Sequence[Remediation], records: Iterable[ActionRecord]
    ) -> None:
        """Check each resting drained node, except one that RackMedic itself returns."""
        known_records = list(records)
        for remediation in remediations:
            if is_resting_drained(remediation) and not any(_is_return_action(row, remediation, self.clock) for row in known_records):
                await self.check_drained_node(incident, state, remediation)

    async def check_drained_node(self, incident: str, state: IncidentState, remediation: Remediation) -> str:
        """Return the text that says the node is in service, or an empty string."""
        states = await self._get_scheduler_states(remediation.target)
        if states is None:
            if remediation.unasked is None:
                await self._send_observation(incident, state, remediation, SCHEDULER_UNOBSERVED_EVENT)
        elif states and states <= IN_SERVICE_STATES:
            word = "+".join(sorted(states))
            await self.ledger.record_seen_in_service(incident, remediation.target, word)
            notice = (
                f"{remediation.target} is back in service since {self.clock.now():%Y-%m-%d %H:%M} UTC at the latest, not by us ({word})"
            )
            await self._send_observation(incident, state, remediation, IN_SERVICE_EVENT, says=notice)
            return notice
        elif remediation.unasked is not None:
            await self._send_observation(incident, state, remediation, SCHEDULER_OBSERVED_EVENT)
        return ""

    async def _get_scheduler_states(self, name: str) -> frozenset[str] | None:
        """Return one state per partition; None if the scheduler could not be asked."""
        host = self.proposer.inventory.hosts.get(name)
        if host is None or not host.controller:
            return None
        status = await read_drain_status(host, self.proposer.transport)
        return None if status.ok is None else frozenset(status.saw.lower().split())

    async def _send_observation(self, incident: str, state: IncidentState, remediation: Remediation, event: str, **more: Any) -> None:
        """Send the event at most once a turn."""
        key = f"hold:{remediation.id}:{event}:{state.get('turns', 0)}"
        at = self.clock.now().isoformat()
        await self.event_delivery.send_event(incident, key, {"event": event, "ladder": remediation.id, "seen": at, **more})


def get_in_service_state(seen: ConditionResult) -> str:
    """Return the node's state if jobs may run in every partition, else an empty string."""
    states = frozenset(seen.saw.lower().split()) if seen.ok is not None else frozenset()
    return "+".join(sorted(states)) if states and states <= IN_SERVICE_STATES else ""


def _is_return_action(record: ActionRecord, remediation: Remediation, clock: Clock) -> bool:
    """Return whether a RackMedic action returns the node now, or has since it was drained."""
    if record.action.remedy != "resume_node" or record.action.target != remediation.target:
        return False
    if record.state is State.EXECUTING or record.state is State.UNKNOWN:
        return True
    return has_started(record) and (remediation.drained_at is None or estimate_claim_time(record, clock.now()) > remediation.drained_at)


log = structlog.get_logger()
TAKEOVER_DELAY = timedelta(seconds=60)
RETRY_LATER_EVENT = "later"  # Deferred without an event to the incident; the reconciler tries again.
# How often each kind of wait is checked.
POLL_INTERVALS: Mapping[str, timedelta] = {
    "approval": timedelta(minutes=1),
    "idle": timedelta(seconds=30),
    "node_back": timedelta(seconds=30),
    "proof": timedelta(minutes=10),
    "none": timedelta(minutes=10),
}


@dataclass(frozen=True, slots=True)
class RemediationReconciler:
    """`reconcile` is idempotent and safe to call concurrently."""

    ledger: Ledger
    verifier: ActionVerifier
    leases: Leases
    index: ActionIndex
    event_delivery: EventDelivery
    proposer: Proposer
    evidence: EvidenceStore
    state_of: IncidentStateLoader
    wake: Callable[[str], Awaitable[None]]
    clock: Clock

    @property
    def wave_scheduler(self) -> WaveScheduler:
        return WaveScheduler(self.ledger, self.index, self.proposer.inventory, self.clock)

    async def reconcile(self, incident: str) -> None:
        """Check everything that the incident's remediations wait for."""
        lease = await self.leases.acquire(incident)
        if lease is None:
            await self.index.schedule_check(incident)
            return
        with structlog.contextvars.bound_contextvars(incident=incident):
            try:
                await lease.guard(self._reconcile_under_lease(incident))
            except LostLease as error:
                log.info("remediation.left", why=str(error))
            finally:
                if lease.held:
                    await lease.release()

    async def _reconcile_under_lease(self, incident: str) -> None:
        mark = await self.index.begin_check(incident, TAKEOVER_DELAY)
        state = await self.state_of(incident)
        remediations = IncidentView(state).remediations
        records = {row.approval: row for row in await self.ledger.list_incident_records(incident)}
        await self._withdraw_unwanted(state, remediations, records.values())
        late = await self.wave_scheduler.list_waiting_remediations(incident, remediations, records.values())
        going = [row for row in list_wanted_remediations(state, remediations) if row.id not in late]
        paused = IncidentView(state).is_muted(self.clock.now())
        stirred = [await self._reconcile_remediation(incident, remediation, records, paused=paused) for remediation in going]
        queue_notes = await self.wave_scheduler.record_queue_notes(incident, remediations)
        for approval in dict.fromkeys(filter(None, (*stirred, *queue_notes))):  # only now, so that the first card shown finds the others
            await self.wake(approval)
        await self._drained_node_monitor.check_drained_nodes(incident, state, remediations, records.values())
        await self._report_all_cured(incident, state, remediations)
        await self.index.finish_check(incident, mark, get_next_check_time(state, remediations, self.clock.now()))

    async def _withdraw_unwanted(self, state: IncidentState, remediations: Sequence[Remediation], records: Any) -> None:
        """Supersede open actions that no remediation waits for."""
        wanted_approvals = {row.approval for row in list_wanted_remediations(state, remediations)}
        for record in records:
            wanted_approvals |= {record.replaced_by} if record.approval in wanted_approvals else set()
            if record.state in OPEN_STATES and record.approval not in wanted_approvals and record.terms.turn <= state.get("turns", 0):
                await self.index.schedule_check(record.approval)  # first: if this worker dies, the card still loses its buttons
                try:
                    await self.ledger.end_action(
                        record.approval, Transition.SUPERSEDE, "rackmedic", "no longer wanted: the incident went on without it"
                    )
                except NotOpen:
                    continue
                await self.wake(record.approval)

    async def _reconcile_remediation(
        self, incident: str, remediation: Remediation, records: Mapping[str, ActionRecord], *, paused: bool
    ) -> str:
        """Return the approval to run now, if any. An error does not stop the other remediations."""
        try:
            return await self._check_wait(incident, remediation, records, paused=paused)
        except (Refusal, Refused, Unreachable) as error:
            log.warning("remediation.not_reconciled", remediation=remediation.id, error=f"{type(error).__name__}: {error}"[:300])
            return ""

    async def _check_wait(self, incident: str, remediation: Remediation, records: Mapping[str, ActionRecord], *, paused: bool) -> str:
        """Check one wait; return the approval to run now, if any.

        `paused` mutes reminders and repeated proposals. An action that ended while its remediation still waits (ledger
        key changed, clock set back) is returned, so that the runner reports it.
        """
        match remediation.waiting_for:
            case "approval":
                is_paused = paused and remediation.attempt > 1 and not remediation.asked_by
                if own := records.get(remediation.approval):
                    return own.approval if own.state in TERMINAL_STATES else ""
                return "" if is_paused else await self._propose_if_fault_persists(incident, remediation)
            case "idle":
                await self._check_drained(incident, remediation, paused=paused)
            case "node_back":
                await self._check_node_back(incident, remediation, records, paused=paused)
            case "proof":
                await self._verify_cure(incident, remediation, records)
        return ""

    async def _propose_if_fault_persists(self, incident: str, remediation: Remediation) -> str:
        """Propose the step, unless the fault has gone meanwhile."""
        if gone_reason := await self._find_fault_gone_reason(incident, remediation):
            await self._send_event(incident, remediation, "needless", says=gone_reason)
            return ""
        return await self.propose_step(incident, remediation)

    async def _find_fault_gone_reason(self, incident: str, remediation: Remediation) -> str:
        """Return what shows that the fault is gone. Skip a first attempt: the turn has just checked."""
        guard = get_step_precondition(remediation)
        if guard is None or (remediation.rung == 0 and remediation.attempt == 1):
            return ""
        fault_state = await self.verifier.check_fault(guard, incident, self.clock.now())
        return fault_state.says if fault_state.answer == "gone" else ""

    async def propose_step(self, incident: str, remediation: Remediation) -> str:
        """Propose the current step and return its approval id. If deferred, send the remediation the reason."""
        try:
            return (await self.create_proposal(incident, remediation)).approval
        except DuplicateAction as error:
            await self._send_event(
                incident, remediation, "joined", says="the same is decided in another incident", replaced_by=error.approval
            )
            return ""
        except ProposalDeferred as error:
            log.info("action.withheld", ladder=remediation.id, hears=error.event, why=str(error))
            if error.event != RETRY_LATER_EVENT:
                reason = await self._describe_drain_owner(remediation, str(error)) if error.event == "held" else str(error)
                await self._send_event(incident, remediation, error.event, says=reason)
            return ""

    async def _describe_drain_owner(self, remediation: Remediation, says: str) -> str:
        """Say that RackMedic drained the node in another thread. Anyone can write a reason, so the record must match."""
        host = self.proposer.inventory.hosts.get(remediation.target)
        reason = await read_drain_reason(host, self.proposer.transport) if host and host.controller else ""
        try:
            other = await self._find_record(reason.removeprefix(DRAIN_REASON_PREFIX)) if reason.startswith(DRAIN_REASON_PREFIX) else None
        except Refused:
            other = None
        if other is None or (other.action.remedy, other.action.target) != ("drain_node", remediation.target) or not has_started(other):
            return says
        fault = f" for {other.action.fault.says}" if other.action.fault else ""
        return f"{remediation.target} is out of service already: RackMedic drained it in another thread{fault}, and returns it there"

    async def _require_return_allowed(self, incident: str, remediation: Remediation) -> None:
        """Raise ProposalDeferred for a node's return unless a new check shows the fault gone."""
        if remediation.current_step is not None and remediation.current_step.part == "restore":
            await self.require_fault_gone(incident, remediation)

    async def find_returned_node(self, incident: str, remediation: Remediation) -> str:
        """Report a drained node that another person returned; return the text, or empty."""
        return await self._drained_node_monitor.check_drained_node(incident, await self.state_of(incident), remediation)

    @property
    def _drained_node_monitor(self) -> DrainedNodeMonitor:
        return DrainedNodeMonitor(self.ledger, self.event_delivery, self.proposer, self.clock)

    async def require_fault_gone(self, incident: str, remediation: Remediation) -> None:
        """Raise ProposalDeferred unless a new check shows the fault gone.

        A fault that only a load test shows counts as gone after a remedy, whose proof ran that test.
        """
        fault = remediation.fault
        if fault is None or (fault.lasts == "proved" and remediation.since):
            return
        fault_state = await self.verifier.check_fault(
            fault, incident, remediation.since or self.clock.now(), changed=remediation.since is not None
        )
        if fault_state.answer == "unseen":
            raise ProposalDeferred(RETRY_LATER_EVENT, f"could not see whether the fault is gone: {fault_state.says}")
        if fault_state.answer != "gone":
            raise ProposalDeferred("shows", f"the fault is there: {fault_state.says}")

    async def create_proposal(
        self, incident: str, remediation: Remediation, *, requested_by: str = "", ahead: bool = False
    ) -> ActionRecord:
        """Return the current step's action, proposing it if it is new. Raise ProposalDeferred.

        The caller wakes the runner. With `ahead`, the incident learns of it only in the turn after all waiting inbox
        items.
        """
        turn = (await self.state_of(incident)).get("turns", 0) + (
            1 + await self.event_delivery.count_waiting_items(incident) if ahead else 0
        )
        await self.index.schedule_check(remediation.approval, self.clock.now() + timedelta(seconds=15))
        await self._require_return_allowed(incident, remediation)
        requester = requested_by or remediation.asked_by
        proposal = await self.proposer.build_proposal(incident, remediation, remediation.approval, requested_by=requester)
        try:
            record = await self.ledger.propose(proposal.action, replace(proposal.terms, turn=turn), single=True)
        except WrongDigest:  # another process proposed it at the same moment with other live values
            record = await self.ledger.get_record(remediation.approval)
        log.info("action.proposed", approval=record.approval, remedy=record.action.remedy, target=record.action.target)
        return record

    async def _check_drained(self, incident: str, remediation: Remediation, *, paused: bool) -> None:
        host = self.proposer.inventory.hosts.get(remediation.target)
        drain_status = await read_drain_status(host, self.proposer.transport) if host and host.controller else None
        if drain_status is None or drain_status.ok:
            await self._send_event(incident, remediation, "idle")
        elif remediation.drained and (word := get_in_service_state(drain_status)):
            await self._report_early_return(incident, remediation, word)
        elif self._is_due(remediation) and not (
            paused and remediation.current_step and remediation.current_step.remedy not in NODE_EMPTYING_REMEDIES
        ):
            await self._send_event(incident, remediation, "busy", says=drain_status.saw[:100])

    async def _report_early_return(self, incident: str, remediation: Remediation, word: str) -> None:
        """Report a node returned by an operator, and whether the fault shows. Retry later if the host was not observed."""
        guard = get_step_precondition(remediation)
        fault_state = await self.verifier.check_fault(guard, incident, self.clock.now()) if guard else None
        if fault_state is not None and fault_state.answer == "unseen":
            return
        await self.ledger.record_seen_in_service(incident, remediation.target, word)
        is_gone = fault_state is not None and fault_state.answer == "gone"
        shows = "the fault no longer shows" if is_gone else f"the fault is there{f': {fault_state.says}' if fault_state else ''}"
        notice = f"a person returned {remediation.target} to service, and {shows}"
        await self._send_event(incident, remediation, "given_back", says=notice, outcome="gone" if is_gone else "")

    async def _check_node_back(self, incident: str, remediation: Remediation, records: Mapping[str, ActionRecord], *, paused: bool) -> None:
        """Check whether the covering action has ended; without one, whether the host answers again."""
        own = records.get(remediation.approval)
        if own is None and (joined := await self._find_record(remediation.approval)):
            await self._check_joined_action(incident, remediation, joined)
            return
        if own and own.covered_by:
            covering = await self.ledger.get_record(own.covered_by)
            if covering.state not in TERMINAL_STATES:
                return
            since = remediation.since or covering.proposed_at
            proof, facts = await self.verifier.verify_again(own, since)
            if proof.looked:
                sha = await self.evidence.put_facts(incident, facts) if facts else ""
                await self._send_event(incident, remediation, "back", outcome=proof.outcome, says=proof.says, facts=sha)
            return
        try:
            await read_boot_id(remediation.target, self.proposer.transport)
        except Unreachable as error:
            if self._is_due(remediation) and not paused:
                await self._send_event(incident, remediation, "unreachable", says=str(error))
            return
        await self._send_event(incident, remediation, "back")

    async def _check_joined_action(self, incident: str, remediation: Remediation, other: ActionRecord) -> None:
        """Once the other incident's action has ended, check what is left to do."""
        if other.state not in TERMINAL_STATES:
            return
        did = has_started(other)
        since = estimate_claim_time(other, self.clock.now()) if did else self.clock.now()
        fault_state = await self.verifier.check_fault(remediation.fault, incident, since, changed=did) if remediation.fault else None
        if fault_state is None or fault_state.answer in ("shown", "likely"):
            await self._send_event(incident, remediation, "back")
        elif fault_state.answer == "gone" and did and remediation.current_step and remediation.current_step.part == "fix":
            await self._send_event(incident, remediation, "back", outcome="passes_now", says=fault_state.says)
        elif fault_state.answer == "gone":
            await self._send_event(incident, remediation, "needless", says=fault_state.says)

    async def _find_record(self, approval: str) -> ActionRecord | None:
        try:
            return await self.ledger.get_record(approval) if approval else None
        except NotFound:
            return None

    async def _verify_cure(self, incident: str, remediation: Remediation, records: Mapping[str, ActionRecord]) -> None:
        """Run the second proof. Retry later if the host was not observed."""
        name = remediation.proven or remediation.approval
        own = records.get(name) or await self._find_record(name)
        if own is None or not self._is_due(remediation):
            return
        proof, facts = await self.verifier.verify_again(own, remediation.since or own.proposed_at)
        if not proof.looked:
            log.info("remediation.not_verified_yet", remediation=remediation.id, why=proof.says)
            return
        good = proof.outcome == "passes_now"
        await self.ledger.record_outcome(own.approval, "cured" if good else "recurred")
        sha = await self.evidence.put_facts(incident, facts) if facts else ""
        await self._send_event(incident, remediation, "cured" if good else "recurred", says="" if good else proof.says, facts=sha)
        await self.index.schedule_check(own.approval)
        await self.wake(own.approval)

    async def _report_all_cured(self, incident: str, state: IncidentState, remediations: Sequence[Remediation]) -> None:
        over = [row.due for row in remediations if row.outcome == "cured" and row.due]
        if state.get("lifecycle") == "watching" and over and is_all_cured(remediations) and max(over) <= self.clock.now():
            await self.event_delivery.send_event(incident, f"quiet:{incident}:{max(over).isoformat()}", {"event": QUIET_EVENT})

    async def _send_event(self, incident: str, remediation: Remediation, event: str, **more: str) -> None:
        """Send the event once per state of the remediation."""
        event_key = f"{remediation.id}:{remediation.rung}:{remediation.attempt}:{remediation.waiting_for}:{remediation.due.isoformat() if remediation.due else ''}"
        await self.event_delivery.send_event(incident, f"ladder:{event_key}:{event}", {"event": event, "ladder": remediation.id, **more})

    def _is_due(self, remediation: Remediation) -> bool:
        return remediation.due is not None and remediation.due <= self.clock.now()


def list_wanted_remediations(state: IncidentState, remediations: Sequence[Remediation]) -> list[Remediation]:
    """Return the open remediations; of a closed incident only those that return drained nodes."""
    closed = state.get("lifecycle") == "closed"
    return [row for row in remediations if row.is_open and (is_returning(row) or not closed)]


def get_next_check_time(state: IncidentState, remediations: Sequence[Remediation], now: datetime) -> datetime | None:
    """Return the next check of the incident, or None."""
    times = [_get_next_wait_check(row, now) for row in list_wanted_remediations(state, remediations)]
    if state.get("lifecycle") != "closed":
        times += [max(row.due, now + POLL_INTERVALS["none"]) for row in remediations if row.outcome == "cured" and row.due]
    times += [now + POLL_INTERVALS["none"] for row in remediations if is_resting_drained(row)]
    return min(times, default=None)


def _get_next_wait_check(remediation: Remediation, now: datetime) -> datetime:
    soon = now + POLL_INTERVALS[remediation.waiting_for]
    return max(soon, remediation.due) if remediation.waiting_for == "proof" and remediation.due else soon
