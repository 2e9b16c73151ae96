"""Golden texts of cards and dialogs: each card of bot.cards at least once, from small samples and from simulated cases."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast, get_args

from bot.alerts import cards as alert_message
from bot.cards.blocks import Block, Card
from bot.incidents.cards import (
    close_form,
    details,
    diagnosis,
    direct_messages,
    feedback,
    handoff_card,
    home,
    incident_menu,
    notes,
    progress,
    questions,
    return_buttons,
    shared_causes,
)
from bot.incidents.cards.handoff_content import build_handoff
from bot.incidents.cards.incident_card import IncidentCardView, render_cured_message, render_look_finished
from bot.incidents.cards.incident_card import render_incident_card as render_living
from bot.incidents.cards.incident_status import IncidentStatus, get_incident_status
from bot.incidents.handlers import slack_markup
from bot.lessons import cards as lesson
from bot.lessons import report_blocks
from bot.provider import cards as provider_ticket
from bot.provider import received_ticket_cards
from bot.remediation.cards import approval_card, brakes, modals, outcomes, queued_hosts, shared_card, side_effects, vote_summary
from bot.remediation.cards.approval_card import ApprovalCardView
from bot.remediation.cards.queued_hosts import QueuedHosts
from bot.tenants.cards import answers, internal_thread, quota_waiting, tenant_card
from bot.tenants.cards.view import TenantCause, TenantStage, TenantState, TenantView
from bot.trackers import cards as ticket_form
from bot.trackers import followed_ticket_card
from graph.context import Progress
from graph.incident_view import IncidentView
from graph.remediation.drained_nodes import DrainedNode
from graph.report import GuideRun, GuideStepRow, HostsSummary, MatchedLesson, Report, ReturnableNode, SiteNote
from graph.state import Conjecture, HandoffTicket, IncidentCosts, IncidentState
from kb.history.lessons import Lesson
from tests.bot.incidents.cards import test_details as sample_details
from tests.bot.incidents.cards import test_incident_status as sample_standing
from tests.bot.incidents.cards.test_fleet import GROUPS, ONE, TWO, held_row
from tests.bot.incidents.cards.test_incident_cards import FELL, NOW, OFFERED, REPORT, STATE, TITLES, UNKNOWN
from tests.bot.remediation.cards.test_approval_cards import GROUP, OLD, process_facts, record_of
from tests.bot.tenants.test_tenant_cards import FALLEN, IFNAME, WORDS
from tests.golden.written import as_yaml
from tests.support.clock import T0
from tests.support.fakes_bot import TEAM
from tests.support.samples_cards import seen_of
from tests.support.tickets import SAID
from tools.execution.conditions import ConditionResult
from tools.execution.delete_preview import DeletePreview, OldFile
from tools.execution.node_jobs import NodeJobs, RunningJob
from tools.ledger import refusals
from tools.ledger.brakes import Brakes, BrakeStatus
from tools.ledger.headroom import BrakeHeadroom, GroupHeadroom, IncidentHeadroom
from tools.ledger.record import ActionRecord, ApprovalTerms, Vote, VoteResult
from tools.ledger.states import State as ActionState
from tools.remedies import scripts

Rendered = Mapping[str, Card | Block | list[Block]]

PRIYA, OLGA = f"{TEAM}:U0PRIYA", f"{TEAM}:U0OLGA"
NAMES = {PRIYA: "priya", OLGA: "olga"}
SEEN = (
    ConditionResult("no process uses this GPU", False, "4711"),
    ConditionResult("drained", None, "no route to host"),
    ConditionResult("same boot", True, ""),
)
REMEDIES: Mapping[str, Mapping[str, Any]] = {
    "reboot": {"remedy": "reboot", "args": {}, "command": ("systemctl", "reboot"), "devices": (), "risk": "destructive"},
    "drain": {
        "remedy": "drain_node",
        "args": {"node": "gpu-017", "approval": "apr-000000000000"},
        "proof": ("sched",),
        "undo": "resume_node",
    },
    "exclusive-check": {"remedy": "run_check", "args": {"check": "nccl1"}, "command": ("nccl1",), "proof": ()},
}
JOBS = side_effects.build_job_rows(NodeJobs((RunningJob("4711", "alice"), RunningJob("4712", "bob"))))
SCRIPT = ("sh", "-c", scripts.CLEANUP, "cleanup", "72", *scripts.CLEANED_FOLDERS)
MANY_OLD = DeletePreview(120, 5 << 30, tuple(OldFile(f"/tmp/ckpt-{n}.pt.tmp", 1 << 30, "train", 6000, open=n == 0) for n in range(12)))
CASES = ("GPU", "no cause found", "one host asked", "handed over")  # names from tests.support.samples_cards


def _written(rendered: Rendered) -> dict[str, str]:
    return {f"{name.replace(' ', '-')}.yaml": as_yaml(value) for name, value in rendered.items()}


def _several(rendered: Rendered) -> str:
    return "\n".join(f"# {name}\n{as_yaml(value)}" for name, value in rendered.items())


def approvals() -> Mapping[str, str]:
    """Return the cards of actions: to decide in each state, ended, several on one, dialogs and brakes."""
    vote = Vote("apr-1", "d", PRIYA, "approve", "2026-05-20T03:12:00+00:00", "x")
    states = {
        f"state-{state}": approval_card.render_approval_card(
            ApprovalCardView(record_of(state=state, exit_status=1 if state is ActionState.FAILED else None), GROUP, NAMES, began=T0)
        )
        for state in ActionState
    }
    outcome = {
        name: outcomes.render_outcome(ApprovalCardView(record_of(state=ActionState.DONE, exit_status=0, outcome=name), GROUP))
        for name in ("passes_now", "unchanged", "worse", "cured", "recurred")
    }
    kill = record_of(remedy="kill_gpu_process", args={"pid": "41233", "ticks": "9876", "signal": "TERM"})
    cleanup = record_of(remedy="cleanup", args={"hours": "72"}, risk="destructive")
    cards: Rendered = {
        **states,
        **{
            name: approval_card.render_approval_card(ApprovalCardView(record_of(**changes), GROUP, known_rows=JOBS))
            for name, changes in REMEDIES.items()
        },
        "jobs-not-read": approval_card.render_approval_card(
            ApprovalCardView(
                record_of(**REMEDIES["drain"]), GROUP, known_rows=side_effects.build_job_rows(NodeJobs(why="no route to host"))
            )
        ),
        "script": approval_card.render_approval_card(
            ApprovalCardView(record_of(remedy="cleanup", args={"hours": "72"}, command=SCRIPT), GROUP)
        ),
        "files-whole": modals.render_all_actions([cleanup], {cleanup.approval: side_effects.build_file_rows(MANY_OLD)}),
        "many-files-to-delete": approval_card.render_approval_card(
            ApprovalCardView(cleanup, GROUP, known_rows=side_effects.build_file_rows(MANY_OLD))
        ),
        "two-approvals": approval_card.render_approval_card(
            ApprovalCardView(record_of(votes=(vote,), quorum=2, requested_by=OLGA), GROUP, NAMES, SEEN, T0, warning="The store may forget.")
        ),
        "nobody-may-approve": approval_card.render_approval_card(
            ApprovalCardView(replace(record_of(), terms=ApprovalTerms(frozenset(), 1)), GROUP)
        ),
        "too-large": approval_card.render_approval_card(ApprovalCardView(record_of(command=("nvidia-smi", "-i", "0" * 100_000)), GROUP)),
        "failed-and-passes-now": approval_card.render_approval_card(
            ApprovalCardView(
                record_of(state=ActionState.FAILED, exit_status=1, outcome="passes_now", says="exit 1"), GROUP, tail=["a line"]
            )
        ),
        "refused-on-the-host": approval_card.render_approval_card(
            ApprovalCardView(record_of(state=ActionState.FAILED, says="no process uses this GPU: found '4711'"), GROUP)
        ),
        "approved-and-held": approval_card.render_approval_card(
            ApprovalCardView(record_of(state=ActionState.APPROVED), GROUP, waiting_note="the kill switch is on")
        ),
        "process-to-end": approval_card.render_approval_card(
            ApprovalCardView(kill, GROUP, known_rows=side_effects.build_process_rows(kill.action, process_facts()))
        ),
        "files-to-delete": approval_card.render_approval_card(
            ApprovalCardView(cleanup, GROUP, known_rows=side_effects.build_file_rows(OLD))
        ),
        "reminder": outcomes.render_reminder(ApprovalCardView(record_of(), GROUP)),
        "dialog-reject": modals.render_reject_form(record_of()),
        "dialog-edit": modals.render_edit_form(kill),
        **_shared(),
    }
    return {**_written(cards), "outcomes.yaml": _several(outcome), "brakes.yaml": _several(_brakes())}


def _rows(*states: ActionState) -> list[ActionRecord]:
    return [
        record_of(target=f"gpu-{n:03}", via=f"gpu-{n:03}", devices=(), approval=f"apr-{n:012x}", state=state)
        for n, state in enumerate(states, 1)
    ]


def _shared() -> Rendered:
    pending = _rows(*[ActionState.PENDING] * 3)
    several = _rows(*ActionState)
    approved = _rows(*[ActionState.APPROVED] * 4)
    votes = [
        VoteResult(approved[0].approval, approved[0]),
        VoteResult("apr-x", approved[1], refusals.TooLate()),
        VoteResult("apr-y", approved[2], refusals.OwnRequest("yours")),
        VoteResult("apr-z", replace(approved[3], state=ActionState.DENIED), refusals.NotOpen("It is denied.")),
    ]
    failed = QueuedHosts(50, 3, 9, "failed", ("gpu-001", "gpu-002"))
    return {
        "several-pending": shared_card.render_shared_card(
            [ApprovalCardView(row, GROUP, condition_results=SEEN, seen_at=T0) for row in pending], Brakes()
        ),
        "several-in-each-state": shared_card.render_shared_card([ApprovalCardView(row, GROUP) for row in several], Brakes()),
        "several-with-a-queue": shared_card.render_shared_card([ApprovalCardView(row, GROUP, queued=failed) for row in pending], Brakes()),
        "several-reminder": outcomes.render_shared_reminder([ApprovalCardView(row, GROUP) for row in pending]),
        "several-commands": modals.render_all_actions(pending),
        "several-votes": vote_summary.render_vote_summary(votes),
        "queue-of-the-next-wave": queued_hosts.render_queue(QueuedHosts(57, 3, 1, "wave"), 3, "v"),
        "queue-for-the-brakes": queued_hosts.render_queue(QueuedHosts(57, 3, 9, "allowance", at=T0), 3, "v"),
    }


def _brakes() -> Rendered:
    room = BrakeHeadroom(Brakes(), (GroupHeadroom("h100", 1, 3, 2, 6),), (IncidentHeadroom("i1", 4, NOW),))
    status = BrakeStatus("priya", "maintenance", ("h100",), ("apr-1",), ("apr-2",))
    return {
        "stopped": brakes.render_stop_notice("priya", "maintenance"),
        "resumed": brakes.render_resume_notice("priya"),
        "breaker reset": brakes.render_resume_notice("priya", "h100"),
        "standing": brakes.render_brake_status(status),
        "nothing stopped": brakes.render_brake_status(BrakeStatus("", "", (), (), ())),
        "room left": brakes.render_change_allowance(room),
        "no room used": brakes.render_change_allowance(BrakeHeadroom(Brakes(), (), ())),
        "waiting": brakes.render_waiting_approvals([brakes.WaitingApproval(record_of(), "T1", "C1", "1.0")], "None."),
        "nothing waits": brakes.render_waiting_approvals([], "None."),
    }


def incidents() -> Mapping[str, str]:
    """Return the cards of an incident: progress, diagnosis, ticket, questions, details, forms."""
    waits_ = cast(IncidentState, {**STATE, "ticket": HandoffTicket(state="waiting", taken_by="olga").model_dump()})
    closed = HandoffTicket(state="resolved", closed_by="olga", true_label="GPU.BUS.Fell_Off", true_cause="loose riser").model_dump()
    about = HostsSummary(hosts=("gpu-002",), found="nothing", checks=22)
    causes = tuple(FELL.model_copy(update={"label": label, "devices": (f"gpu-017/gpu{n}",)}) for n, label in enumerate(TITLES))
    asked = {"about": about, "also_seen": (FELL.label,), "headline": "gpu-002: 22 checks, nothing abnormal."}
    stats = IncidentCosts(hosts=4, checks=40, makespan_seconds=12.3)
    following_ = progress.ProgressCard("i1")
    for news in (
        Progress("i1", "summarise", "NCCL timeout on gpu-[017-020]"),
        Progress("i1", "execute", "asking 4 hosts", done=12, total=40),
    ):
        following_ = progress.apply_progress(following_, news)
    stands = get_incident_status(
        sample_standing.incident(sample_standing.LADDER.model_copy(update={"rung": 1})), [sample_standing.record(ActionState.EXECUTING)]
    )
    by_hand = REPORT.model_copy(update={"held": (ReturnableNode(ladder="l1", host="gpu-017"),)})
    empty = Report(item="x", outcome="abstained", questions=("Which hosts?",), suggestions=("Try a smaller batch",))
    return _written(
        {
            "progress": progress.render_progress(following_),
            "diagnosis": diagnosis.render_diagnosis("i1", REPORT, stats, titles=TITLES),
            "diagnosis-of-three-causes": diagnosis.render_diagnosis("i1", REPORT.model_copy(update={"root_causes": causes}), titles=TITLES),
            "diagnosis-of-what-was-asked": diagnosis.render_diagnosis("i1", REPORT.model_copy(update=asked), titles=TITLES),
            "diagnosis-with-unknown-hosts": diagnosis.render_diagnosis(
                "i1", REPORT.model_copy(update={"unknown_hosts": UNKNOWN}), titles=TITLES
            ),
            "no-fault": diagnosis.render_diagnosis("i1", Report(item="x", outcome="no_fault", next_step="Nothing to fix.")),
            "no-cause": diagnosis.render_diagnosis("i1", empty),
            "question": questions.render_question_card(("Which hosts?",), ("Try a smaller batch",)),
            "living": render_living(IncidentCardView("i1", by_hand, stats, stands, titles=TITLES)),
            "living-without-a-look": render_living(
                IncidentCardView("i1", status=IncidentStatus("ticket", ("Waiting for a person to take it.",)))
            ),
            "ended": render_cured_message(IncidentStatus("well", ("Fixed; re-check at 14:02 UTC.",)), "GPU fell off the bus on gpu-017"),
            "told": render_look_finished(REPORT),
            "ticket": handoff_card.render_ticket(build_handoff(STATE), TITLES),
            "ticket-waits": handoff_card.render_ticket(build_handoff(waits_), TITLES),
            "ticket-closed": handoff_card.render_ticket(build_handoff(cast(IncidentState, {**STATE, "ticket": closed})), TITLES),
            "details": details.render_details(IncidentView(sample_details.STATE), TITLES, {"gpu-017": "8d3a1c52"}, "an earlier item"),
            "dialog-close": close_form.render_close_form(
                close_form.IncidentClosure("i1", "GPU.BUS.Fell_Off", "loose riser", ("gpu-017",)), OFFERED
            ),
            "dialog-assign": incident_menu.render_assign_form("i1", "U1"),
            "dialog-correct": incident_menu.render_correction_form("i1", OFFERED, "GPU.BUS.Fell_Off"),
            "dialog-not-useful": feedback.render_feedback_form("i1", "x"),
            "elements": [
                incident_menu.render_menu("i1"),
                feedback.render_feedback_buttons("i1", "x"),
                *return_buttons.render_return_buttons("i1", by_hand.held),
            ],
        }
    )


def notes_and_home() -> Mapping[str, str]:
    """Return short notes, the Home tab, direct messages and lessons."""
    gone, stuck = [
        DrainedNode(f"l{n}", f"gpu-00{n}", "GPU.BUS.Fell_Off", "Olga", NOW - timedelta(hours=n), "an approver said no", why)
        for n, why in ((1, ""), (2, "a remedy was run and is not proved to have helped"))
    ]
    open_ = home.OpenIncident(
        "i1", "handed_off", NOW, "Link down", owners=frozenset({"U1"}), drained_nodes=(gone,), team="T1", channel="C1", thread_ts="1.0"
    )
    elsewhere = home.OpenIncident("i2", "open", NOW, "GPU gone", elsewhere=True, drained_nodes=(stuck,))
    tab = home.HomeTab(
        [open_, elsewhere],
        "U1",
        TITLES,
        brakes.render_waiting_approvals([], "None."),
        brakes=brakes.render_brake_status(BrakeStatus("", "", (), (), ())),
        note="the fault is there",
        fleet=home.render_fleet(home.summarize_groups(GROUPS, [TWO, ONE, held_row()]), [("GPU fell off", 2)], 30, counted_incidents=100),
        unserved_channels={"C1": True, "C2": None},
    )
    small: Rendered = {
        "refused": notes.render_refusal("No, because.", ["C0OPS"]),
        "joined": notes.render_joined_thread("T1", "C1", "1.0"),
        "ask_there": notes.render_ask_in_joined_thread("T1", "C1", "1.0"),
        "beside": notes.render_joined_hidden_thread(),
        "goes on": notes.render_in_progress("It goes on."),
        "not stored, Slack retries": notes.render_not_stored(True),
        "not stored": notes.render_not_stored(False),
        "nothing said": notes.render_empty_report(),
        "not read again": notes.render_edit_ignored(),
        "thread deleted": notes.render_thread_deleted(open_),
        "enough": notes.render_answer_limit(timedelta(minutes=3)),
        "passed_over": notes.render_not_understood(),
        **{
            f"bug {n}": notes.render_internal_error("e1f2", known)
            for n, known in enumerate((notes.MESSAGE_ERROR_TEXT, notes.DECISION_ERROR_TEXT, notes.COMMAND_ERROR_TEXT), 1)
        },
        "alerts": alert_message.render_alert_message("Fell off", 3, 1, "gpu-[001-003]", ("XidErrors gpu-001",), 2),
    }
    personal: Rendered = {
        "help": direct_messages.render_direct_help(["C0OPS"]),
        "status": direct_messages.render_direct_status([open_], [elsewhere], NOW),
        "status without incidents": direct_messages.render_direct_status([], [], NOW),
        "approvals": direct_messages.render_direct_approvals(brakes.render_waiting_approvals([], "None.")),
        "over there": direct_messages.render_other_channels("Not here.", ["C0OPS"]),
        "elsewhere": direct_messages.render_not_answered_here("Not here.", ["C0OPS"]),
    }
    taught = Lesson(
        id="les-1", title="GPU gone after a reboot", description="nccl timeout", label="GPU.BUS.Fell_Off", root_cause="loose riser",
        deciding_check="lspci", resolution="reseated", misled=("GPU.THERMAL.Slowdown",), incident="i1", on=T0.date(),
    )  # fmt: skip
    return _written(
        {
            "home": home.render_home_tab(tab, NOW),
            "home-empty": home.render_home_tab(home.HomeTab([]), NOW),
            "home-refused": home.render_refused_home("Only for full members."),
            "help": home.render_help(slack_markup.list_help_rows()),
            "lesson": lesson.render_lesson(taught, TITLES),
            "lesson-accepted": lesson.render_lesson(taught.model_copy(update={"state": "accepted"}), TITLES, "priya"),
            "dialog-lesson": lesson.render_lesson_form(taught, OFFERED),
        }
    ) | {"notes.yaml": _several(small), "direct.yaml": _several(personal), "knowledge.yaml": _several(_knowledge())}


def _knowledge() -> Rendered:
    steps = tuple(GuideStepRow(id=mark, mark=cast(Any, mark), does=f"Look at {mark}", says="seen") for mark in ("done", "next", "people"))
    unproven = [
        Conjecture(title="Loose riser", cause="vibration", rests=("Xid 79",), confirms="reseat", refutes="again", suggestions=("look",)),
        Conjecture(title="Power", cause="supply", standing="refuted", doubt="712 W"),
    ]
    alike = MatchedLesson(lesson="les-1", label="GPU.BUS.Fell_Off", incident="inc-old", on="2026-03-02", title="GPU gone")
    report = REPORT.model_copy(
        update={
            "guide": GuideRun(id="gpu_lost", title="A GPU is lost", called=True, steps=steps),
            "notes": (SiteNote(page="risers", title="Risers", says=("Reseat them cold.",), source="wiki"),),
            "recalled": (alike,),
        }
    )
    fits = report.model_copy(update={"guide": GuideRun(id="gpu_lost", title="A GPU is lost", steps=steps), "root_causes": ()})
    return {
        "guide that was called": report_blocks.render_guide(report),
        "guide that fits": report_blocks.render_guide(fits),
        "pages": report_blocks.render_site_notes(report),
        "lesson like it": report_blocks.render_recalled_lessons(report, TITLES),
        "lesson that sounds like it": report_blocks.render_recalled_lessons(fits, TITLES),
        "ideas": report_blocks.render_ideas(unproven),
        "closed incidents": shared_causes.render_shared_causes(report, {}),
    }


def outside() -> Mapping[str, str]:
    """Return what customers, providers and trackers are shown."""
    causes = (
        TenantCause(WORDS.get_cause_words(FALLEN, "en"), True, ("train-01",)),
        TenantCause(WORDS.get_cause_words(IFNAME, "en"), False, ("train-01",), ("NCCL_SOCKET_IFNAME=docker0",), "unset NCCL_SOCKET_IFNAME"),
    )
    views: dict[str, TenantView] = {}
    for stage in get_args(TenantStage):
        ours = {"yours": causes[1:], "ours": causes[:1], "both": causes}.get(stage, ())
        views[stage] = TenantView("i1", stage, "received" if stage in ("ours", "both") else "", ours, ("train-01",), ("q_which",))
    views |= {f"people-{state}": TenantView("i1", "people", state) for state in get_args(TenantState) if state}
    german = TenantView("i1", "ours", "repairing", causes[:1], ("train-01",), language="de")
    said: Rendered = {kind: answers.render_answer(kind, views["both"], ["train-01"], ["gpu-9"]) for kind in get_args(answers.AnswerKind)}
    team: Rendered = {
        "root": internal_thread.render_root_message("i1", "acme", "C0ACME", "job hangs", ["a.log"]),
        "quoted": internal_thread.render_tenant_message("acme", "still", []),
        "noted": internal_thread.render_note("They pressed it."),
        "as they see": internal_thread.render_visibility_note("acme", "C0OPS"),
        "told": internal_thread.render_sent_message("priya", "We are on it.", fetched=True),
        "form": internal_thread.render_tell_form("i1", "acme", "We are on it."),
        "preview": internal_thread.render_tell_preview(
            "i1", "acme", "We are on it.", tenant_card.render_operator_message("We are on it.", "en")
        ),
        "waits": quota_waiting.render_waiting_tenants(
            [quota_waiting.WaitingTenantView("acme", 3, "i1", T0, "incidents", words="job hangs")]
        ),
    }
    sent = provider_ticket.ProviderTicketView("i1", "offered")
    ways = {
        "offered": sent,
        "shown": replace(sent, stage="shown", digest="d"),
        "waiting": replace(sent, stage="waiting", by="olga", tries=3, trouble="no route"),
        "refused": replace(sent, stage="refused", refused="too large"),
        "sent": replace(sent, stage="sent", ticket="inc-9", state="repairing", by="olga"),
        "theirs to mend": replace(sent, stage="sent", ticket="inc-9", causes=causes[1:]),
    }
    provider: Rendered = {
        **{name: provider_ticket.render_provider_ticket(view) for name, view in ways.items()},
        "moved": provider_ticket.render_update(ways["sent"]),
        "says": provider_ticket.render_provider_message("inc-9", "please restart"),
        "arrived": received_ticket_cards.render_received_ticket("i1", "acme", SAID),
        "news": received_ticket_cards.render_ticket_update("acme", SAID),
        "lost": received_ticket_cards.render_ticket_lost("acme"),
    }
    there = followed_ticket_card.FollowedTicket("i1", "jira", "Jira", "there", "olga", "GPU-7", "https://jira.example/GPU-7", "In progress")
    trackers: Rendered = {
        **{
            way: followed_ticket_card.render_followed_ticket(replace(there, way=cast(Any, way), trouble="no route", tries=2))
            for way in get_args(followed_ticket_card.TicketStage)
        },
        "moved": followed_ticket_card.render_state_change(there),
        "done": followed_ticket_card.render_state_change(replace(there, done=True, state="Done")),
        "remark": followed_ticket_card.render_comment(there, followed_ticket_card.TicketComment("comment", "ann", ("replaced it",), T0)),
        "offers": ticket_form.render_open_buttons("i1", [("jira", "Jira"), ("snow", "ServiceNow")]),
        "form": ticket_form.render_tracker_form(
            ticket_form.TrackerForm("i1", "jira", "Jira", "d", "GPU fell off", "all of it", {"Project": "GPU"})
        ),
    }
    return {
        **_written({f"customer-{name}": tenant_card.render_tenant_card(view) for name, view in (*views.items(), ("german", german))}),
        "customer-moved.yaml": _several({name: tenant_card.render_update(view) for name, view in views.items()}),
        "customer-answers.yaml": _several(said),
        "customer-team.yaml": _several(team),
        "provider.yaml": _several(provider),
        "trackers.yaml": _several(trackers),
        "suggestions.yaml": as_yaml([*direct_messages.build_prompt_payload(direct_messages.SUGGESTED_PROMPTS)]),
    }


def cases() -> Mapping[str, str]:
    """Return the cards of diagnosed cases as posted in their threads."""
    return {f"{name.replace(' ', '-')}.yaml": asyncio.run(_thread(name)) for name in CASES}


async def _thread(name: str) -> str:
    return "\n---\n".join(as_yaml(shown) for shown in (await seen_of(name)).cards)
