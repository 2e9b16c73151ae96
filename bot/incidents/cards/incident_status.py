"""The status of an incident, from its stored state and the ledger's records. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bot.cards.blocks import TaskStatus
from graph.incident.lifecycle import is_all_cured, is_settled_for_tenant
from graph.incident_view import IncidentView
from graph.remediation.cause_ownership import is_owned_elsewhere
from graph.remediation.drained_nodes import will_return_node
from graph.remediation.outcomes import format_current_step
from graph.report import Report
from graph.state import Remediation, RemediationOutcome, RemediationStep
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.record import ActionRecord
from tools.ledger.states import State
from tools.remedies import REMEDIES
from tools.remedies.remedy import fill_slots

StatusSign = Literal["looking", "people", "unclear", "well", "ticket"]


class SignRow(NamedTuple):
    """A sign's mark on cards, Slack reaction, and meaning."""

    mark: str
    reaction: str
    means: str


# The reaction goes on the message that called us, so that the channel reads as a board.
STATUS_SIGNS: Mapping[StatusSign, SignRow] = {
    "looking": SignRow("🔎", "mag_right", "RackMedic is looking"),
    "people": SignRow("🔴", "red_circle", "a fault was found and waits for people"),
    "unclear": SignRow("❓", "question", "no cause was found, or an answer is needed"),
    "well": SignRow("✅", "white_check_mark", "healthy, fixed or closed"),
    "ticket": SignRow("🎫", "ticket", "a person has it"),
}
MAX_LINES = 3


@dataclass(frozen=True, slots=True)
class IncidentStatus:
    """`lines`: the most urgent first. `then`: what follows. `tasks`: all steps, where remediations are at one step."""

    sign: StatusSign
    lines: tuple[str, ...]
    then: str = ""
    tasks: tuple[tuple[str, TaskStatus], ...] = ()
    step: str = ""  # the first line without what the tasks say
    closed: bool = False
    mended: bool = False  # every remediation is done and proven: no host is to be avoided any more

    @property
    def has_begun(self) -> bool:
        """Before that the approval card says all."""
        return any(status != "pending" for _, status in self.tasks)

    @property
    def first_line(self) -> str:
        return f"{STATUS_SIGNS[self.sign].mark} {self.lines[0]}"


# Outcomes that leave work to people while the incident is open.
OUTCOME_TEXTS: Mapping[RemediationOutcome, str] = {
    "unknown": "unknown whether it ran; check the host, then answer on its card",
    "ticket": "for people",
    "undecided": "no decision",
    "denied": "rejected",
    "stopped": "stopped",
}
ACTION_STATE_TEXTS: Mapping[State, str] = {
    State.PENDING: "waiting for approval",
    State.APPROVED: "approved, starts as soon as it may",
    State.EXECUTING: "running",
    State.DONE: "ran, being verified",
}
LOST_CONTACT_TEXT = "running when contact with the host was lost"
WAIT_TEXTS: Mapping[str, str] = {
    "approval": "not proposed yet",
    "idle": "waiting until the node is drained and without jobs",
    "node_back": "waiting for the host to answer",
}
BEGUN_STATES = frozenset({State.APPROVED, State.EXECUTING, State.DONE})
STATE_PRIORITY = (State.PENDING, State.EXECUTING, State.APPROVED, State.DONE)


def get_incident_status(
    incident_view: IncidentView,
    records: Sequence[ActionRecord] = (),
    taken_by: str = "",
    theirs: Collection[str] = (),
    lost: Collection[str] = (),
) -> IncidentStatus:
    """Return the status.

    `taken_by`: the assignee's name. `theirs`: causes that the tenant mends. `lost`: approvals of running actions with
    unreachable hosts.
    """
    match incident_view.lifecycle:
        case "closed":
            return IncidentStatus(
                "well",
                ("Closed: the fix held." if (cured := is_all_cured(incident_view.remediations)) else "Closed.",),
                closed=True,
                mended=cured,
            )
        case "handed_off":
            is_waiting = incident_view.ticket is not None and incident_view.ticket.state == "waiting"
            has = f"{taken_by} has it{', and it waits for others' if is_waiting else ''}."
            first = has if taken_by else "Waiting for a person to take it."
            return IncidentStatus("ticket", (first, *_list_human_tasks(incident_view.remediations)[:MAX_LINES]))
        case "watching":
            return _build_watched_status(incident_view.remediations)
        case _ if incident_view.is_stopped:
            return IncidentStatus(
                "people", _list_human_tasks(incident_view.remediations)[:MAX_LINES] or ("Stopped. Say recheck for a new look.",)
            )
        case _:
            return _build_repair_status(incident_view.remediations, {row.approval: row for row in records}, lost) or _build_report_status(
                incident_view, theirs
            )


def _build_watched_status(remediations: Sequence[Remediation]) -> IncidentStatus:
    due_at = min((row.due for row in remediations if row.waiting_for == "proof" and row.due), default=None)
    if due_at is None:
        return IncidentStatus(
            "well", ("Cured: re-checked, the fault did not come back.",), "closes automatically if nothing more happens", mended=True
        )
    mended = not any(row.drained for row in remediations)
    return IncidentStatus("well", (f"Fixed; re-check at {due_at:%H:%M} UTC.",), mended=mended)


def _build_report_status(incident_view: IncidentView, theirs: Collection[str]) -> IncidentStatus:
    report = incident_view.report
    if report is None:
        return IncidentStatus("looking", ("Received.",))
    if report.outcome == "no_fault":
        return IncidentStatus("well", ("Nothing to fix here.",))
    if ended := _list_human_tasks(incident_view.remediations):
        return IncidentStatus("people", ended[:MAX_LINES])
    fault: StatusSign = "people" if report.outcome == "diagnosed" or report.root_causes else "unclear"
    if report.questions:
        return IncidentStatus(fault, ("Waiting for an answer.",))
    if report.about and report.about.found == "nothing" and not report.actions:
        return IncidentStatus("well", ("Nothing to fix on the hosts you asked about.",))
    if incident_view.origin and incident_view.origin.customer and is_settled_for_tenant(incident_view, theirs.__contains__):
        return IncidentStatus("well", ("Answered: the customer was told how to fix it.",), "closes automatically if nothing more happens")
    return IncidentStatus(fault, (_describe_other_incidents(report) or "Waiting for people.",))


def _describe_other_incidents(report: Report) -> str:
    """Return text where other incidents own all that was found."""
    if not is_owned_elsewhere(report):
        return ""
    if all(row.label in report.also_seen for row in report.root_causes):
        subject = fold_host_names(report.about.hosts) if report.about else "what was asked about"
        return f"No cause is proven on {subject}; what else was seen is worked on in another thread."
    return "Worked on and decided in another thread."


def _list_human_tasks(remediations: Sequence[Remediation]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            f"{row.target}: {OUTCOME_TEXTS[row.outcome]}{f', {row.says}' if row.says else ''}."
            for row in remediations
            if row.outcome in OUTCOME_TEXTS
        )
    )


def _build_repair_status(
    remediations: Sequence[Remediation], records: Mapping[str, ActionRecord], lost: Collection[str]
) -> IncidentStatus | None:
    """Return the status of running remediations, or None."""
    going = [row for row in remediations if row.is_open and row.waiting_for != "proof" and row.current_step]
    if not going:
        return None
    groups: dict[tuple[object, ...], list[Remediation]] = {}
    for row in going:
        groups.setdefault((row.label, row.rung, len(row.rungs), _describe_wait(row, records, lost)), []).append(row)
    parts = sorted(groups.values(), key=lambda rows: _get_priority(rows[0], records))
    doubt = _list_human_tasks([row for row in remediations if row.outcome == "unknown"])
    under_way, rest = (
        [parts[0], *(rows for rows in parts[1:] if _is_under_way(rows[0], records))],
        [rows for rows in parts[1:] if not _is_under_way(rows[0], records)],
    )
    people = _list_human_tasks([row for row in remediations if row.outcome == "ticket"])
    lines = [
        *doubt,
        *(_describe_step_progress(rows, records, lost) for rows in under_way),
        *_summarize_other_repairs(rest, records),
        *people,
    ]
    more = len(lines) - MAX_LINES
    shown_lines = lines[:MAX_LINES] if more <= 0 else [*lines[: MAX_LINES - 1], f"and {more + 1} more fixes"]
    if len(lines) > 1:
        return IncidentStatus("people", tuple(shown_lines), _describe_next_step(parts[0]))
    step = f"{_format_step_count(parts[0][0])}: {_describe_wait(parts[0][0], records, lost)}"
    return IncidentStatus("people", tuple(shown_lines), _describe_next_step(parts[0]), _list_plan_tasks(parts[0], records), step)


def _is_under_way(remediation: Remediation, records: Mapping[str, ActionRecord]) -> bool:
    """Return whether it runs, or waits for something other than a decision or its turn."""
    record = records.get(remediation.approval)
    return remediation.waiting_for in ("idle", "node_back") or (record is not None and record.state in BEGUN_STATES)


def _summarize_other_repairs(groups: Sequence[Sequence[Remediation]], records: Mapping[str, ActionRecord]) -> list[str]:
    put_up = [row for rows in groups for row in rows if row.approval in records]
    later = [row for rows in groups for row in rows if row.approval not in records]
    return [
        f"{len(rows)} more {'fixes' if len(rows) > 1 else 'fix'} {words}: {fold_host_names(name for row in rows for name in row.target.split(','))}"
        for rows, words in ((put_up, "to decide"), (later, "to come"))
        if rows
    ]


def _describe_step_progress(remediations: Sequence[Remediation], records: Mapping[str, ActionRecord], lost: Collection[str]) -> str:
    return f"{_format_step_count(remediations[0])}: {_describe_step(remediations, remediations[0].rung)} ({_describe_wait(remediations[0], records, lost)})"


def _format_step_count(remediation: Remediation) -> str:
    return f"Step {_get_step_position(remediation) + 1} of {len(_list_step_indexes(remediation))}"


def _list_plan_tasks(remediations: Sequence[Remediation], records: Mapping[str, ActionRecord]) -> tuple[tuple[str, TaskStatus], ...]:
    first, steps = remediations[0], _list_step_indexes(remediations[0])
    record = records.get(first.approval)
    now: TaskStatus = "in_progress" if record and record.state in BEGUN_STATES else "pending"
    states: list[TaskStatus] = ["complete" if n < first.rung else now if n == first.rung else "pending" for n in steps]
    return tuple((_describe_step(remediations, n), status) for n, status in zip(steps, states, strict=True))


def _describe_next_step(remediations: Sequence[Remediation]) -> str:
    after = _list_step_indexes(remediations[0])[_get_step_position(remediations[0]) + 1 :]
    return _describe_step(remediations, after[0]) if after else "re-checked later"


def _list_step_indexes(remediation: Remediation) -> list[int]:
    """Return the steps of the present plan, and of the return to service."""
    step = remediation.current_step
    plan = remediation.tried if step is None or step.part == "restore" else step.plan
    back = will_return_node(remediation)
    return [n for n, row in enumerate(remediation.rungs) if row.plan == plan or (row.part == "restore" and back) or n == remediation.rung]


def _get_step_position(remediation: Remediation) -> int:
    return _list_step_indexes(remediation).index(remediation.rung)


def _describe_step(remediations: Sequence[Remediation], step: int) -> str:
    """Describe a step; fold several hosts, and show `…` for arguments that differ."""
    rows = [row.model_copy(update={"rung": step}) for row in remediations]
    hosts = fold_host_names(name for row in rows for name in row.target.split(","))
    descriptions = {format_current_step(row) for row in rows}
    words = descriptions.pop() if len(descriptions) == 1 else _describe_common_step([row.rungs[step] for row in rows], hosts)
    return words if hosts in words else f"{words}, {hosts}"


def _describe_common_step(steps: Sequence[RemediationStep], hosts: str) -> str:
    args = [{"approval": "…", **step.args} for step in steps]
    values_by_name = {name: {row.get(name, "…") for row in args} for name in args[0]}
    values = {name: hosts if name == "node" else values.pop() if len(values) == 1 else "…" for name, values in values_by_name.items()}
    return fill_slots(REMEDIES[steps[0].remedy].does, values)


def _describe_wait(remediation: Remediation, records: Mapping[str, ActionRecord], lost: Collection[str]) -> str:
    record = records.get(remediation.approval)
    if record and record.state is State.EXECUTING and remediation.approval in lost:
        return LOST_CONTACT_TEXT
    if remediation.waiting_for == "approval" and record and record.state in ACTION_STATE_TEXTS:
        return ACTION_STATE_TEXTS[record.state] + (f" until {record.decide_by:%H:%M} UTC" if record.state is State.PENDING else "")
    return WAIT_TEXTS.get(remediation.waiting_for, "waiting for the other fixes on this host")


def _get_priority(remediation: Remediation, records: Mapping[str, ActionRecord]) -> int:
    record = records.get(remediation.approval)
    return STATE_PRIORITY.index(record.state) if record and record.state in STATE_PRIORITY else len(STATE_PRIORITY)
