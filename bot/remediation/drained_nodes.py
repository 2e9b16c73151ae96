"""Check whether the scheduler still has drained nodes out of service, since an operator may return one by hand.

Only a state in which jobs may run counts as returned. If the scheduler does not answer, only that is reported.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bot.remediation.action_runner import EventDelivery
from bot.remediation.proposer import Proposer
from graph.execution.action_effects import estimate_claim_time, has_started
from graph.remediation.drained_nodes import is_returning
from graph.remediation.state_machine import IN_SERVICE_EVENT, SCHEDULER_OBSERVED_EVENT, SCHEDULER_UNOBSERVED_EVENT
from graph.state import IncidentState, Remediation
from tools.clock import Clock
from tools.execution.conditions import ConditionResult
from tools.execution.drain_status import read_drain_status
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord
from tools.ledger.states import State

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
            if is_resting_drained(remediation) and not any(
                _is_return_action(known_record, remediation, self.clock) for known_record in known_records
            ):
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


def get_in_service_state(result: ConditionResult) -> str:
    """Return the node's state if jobs may run in every partition, else an empty string."""
    states = frozenset(result.saw.lower().split()) if result.ok is not None else frozenset()
    return "+".join(sorted(states)) if states and states <= IN_SERVICE_STATES else ""


def _is_return_action(record: ActionRecord, remediation: Remediation, clock: Clock) -> bool:
    """Return whether a RackMedic action returns the node now, or has since it was drained."""
    if record.action.remedy != "resume_node" or record.action.target != remediation.target:
        return False
    if record.state is State.EXECUTING or record.state is State.UNKNOWN:
        return True
    return has_started(record) and (remediation.drained_at is None or estimate_claim_time(record, clock.now()) > remediation.drained_at)
