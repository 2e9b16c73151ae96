"""Golden texts of cards and dialogs: each card of bot.cards at least once, from small samples and from simulated cases."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast, get_args

from bot.cards.alerts import firing
from bot.cards.approvals import (
    brakes,
    card,
    edit_modal,
    files,
    node_jobs,
    outcomes,
    process,
    reject_modal,
    shared_card,
    tally,
    waiting,
    whole,
)
from bot.cards.approvals.card import Shown
from bot.cards.approvals.waiting import Queued
from bot.cards.blocks import Block, Card
from bot.cards.customers import answers, inside, living, waits
from bot.cards.customers.view import CustomerView, Stage, State, TheirCause
from bot.cards.incidents import close_modal, details, diagnosis, feedback, held, home, kept, more, notes, progress, question, ticket
from bot.cards.incidents.handoff import handoff
from bot.cards.incidents.living import Living, ended, told
from bot.cards.incidents.living import render as render_living
from bot.cards.incidents.standing import IncidentStanding, standing
from bot.cards.lessons import guided, ideas, lesson, noted, recalled
from bot.cards.personal import direct, fleet, suggestions
from bot.cards.provider import arrived, sending
from bot.cards.trackers import following, opening
from bot.slack.incoming import grammar
from graph.ladders.held import Held
from graph.ports import Progress
from graph.report import AboutHosts, GuideRun, GuideStepRow, HeldNode, RecalledLesson, Report, SiteNote
from graph.rows import IncidentRows
from graph.state import Conjecture, Incident, Stats, Ticket
from kb.history.lessons import Lesson
from tests.bot.cards import test_details as sample_details
from tests.bot.cards import test_standing as sample_standing
from tests.bot.cards.test_approval_views import GROUP, OLD, process_facts, record_of
from tests.bot.cards.test_customers import FALLEN, IFNAME, WORDS
from tests.bot.cards.test_fleet import GROUPS, ONE, TWO, held_row
from tests.bot.cards.test_views import FELL, NOW, OFFERED, REPORT, STATE, TITLES, UNKNOWN
from tests.golden.written import as_yaml
from tests.support.clock import T0
from tests.support.fakes_bot import TEAM
from tests.support.samples_cards import seen_of
from tests.support.tickets import SAID
from tools.acting.conditions import ConditionSeen
from tools.acting.deletes import Deletes, OldFile
from tools.acting.jobs import NodeJobs, RunningJob
from tools.ledger import record
from tools.ledger.brakes import Brakes, BrakeStatus
from tools.ledger.record import Counted, Record, Terms, Vote
from tools.ledger.room import GroupRoom, IncidentRoom, Room
from tools.ledger.states import State as ActionState
from tools.remedies import scripts

Rendered = Mapping[str, Card | Block | list[Block]]

PRIYA, OLGA = f"{TEAM}:U0PRIYA", f"{TEAM}:U0OLGA"
NAMES = {PRIYA: "priya", OLGA: "olga"}
SEEN = (
    ConditionSeen("no process uses this GPU", False, "4711"),
    ConditionSeen("drained", None, "no route to host"),
    ConditionSeen("same boot", True, ""),
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
JOBS = node_jobs.known_of(NodeJobs((RunningJob("4711", "alice"), RunningJob("4712", "bob"))))
SCRIPT = ("sh", "-c", scripts.CLEANUP, "cleanup", "72", *scripts.CLEANED)
MANY_OLD = Deletes(120, 5 << 30, tuple(OldFile(f"/tmp/ckpt-{n}.pt.tmp", 1 << 30, "train", 6000, open=n == 0) for n in range(12)))
CASES = ("GPU", "no cause found", "one host asked", "handed over")
"""Of tests.support.samples_cards."""


def _written(rendered: Rendered) -> dict[str, str]:
    return {f"{name.replace(' ', '-')}.yaml": as_yaml(value) for name, value in rendered.items()}


def _several(rendered: Rendered) -> str:
    """Return several small cards as one text."""
    return "\n".join(f"# {name}\n{as_yaml(value)}" for name, value in rendered.items())


def approvals() -> Mapping[str, str]:
    """Return the cards of actions: to decide in each state, ended, several on one, dialogs and brakes."""
    vote = Vote("apr-1", "d", PRIYA, "approve", "2026-05-20T03:12:00+00:00", "x")
    states = {
        f"state-{state}": card.render(
            Shown(record_of(state=state, exit_status=1 if state is ActionState.FAILED else None), GROUP, NAMES, began=T0)
        )
        for state in ActionState
    }
    outcome = {
        name: outcomes.render(Shown(record_of(state=ActionState.DONE, exit_status=0, outcome=name), GROUP))
        for name in ("passes_now", "unchanged", "worse", "cured", "recurred")
    }
    kill = record_of(remedy="kill_gpu_process", args={"pid": "41233", "ticks": "9876", "signal": "TERM"})
    cleanup = record_of(remedy="cleanup", args={"hours": "72"}, risk="destructive")
    cards: Rendered = {
        **states,
        **{name: card.render(Shown(record_of(**changes), GROUP, known=JOBS)) for name, changes in REMEDIES.items()},
        "jobs-not-read": card.render(
            Shown(record_of(**REMEDIES["drain"]), GROUP, known=node_jobs.known_of(NodeJobs(why="no route to host")))
        ),
        "script": card.render(Shown(record_of(remedy="cleanup", args={"hours": "72"}, command=SCRIPT), GROUP)),
        "files-whole": whole.render([cleanup], {cleanup.approval: files.known_of(MANY_OLD)}),
        "many-files-to-delete": card.render(Shown(cleanup, GROUP, known=files.known_of(MANY_OLD))),
        "two-approvals": card.render(
            Shown(record_of(votes=(vote,), quorum=2, requested_by=OLGA), GROUP, NAMES, SEEN, T0, warning="The store may forget.")
        ),
        "nobody-may-approve": card.render(Shown(replace(record_of(), terms=Terms(frozenset(), 1)), GROUP)),
        "too-large": card.render(Shown(record_of(command=("nvidia-smi", "-i", "0" * 100_000)), GROUP)),
        "failed-and-passes-now": card.render(
            Shown(record_of(state=ActionState.FAILED, exit_status=1, outcome="passes_now", says="exit 1"), GROUP, tail=["a line"])
        ),
        "refused-on-the-host": card.render(
            Shown(record_of(state=ActionState.FAILED, says="no process uses this GPU: found '4711'"), GROUP)
        ),
        "approved-and-held": card.render(Shown(record_of(state=ActionState.APPROVED), GROUP, held="the kill switch is on")),
        "process-to-end": card.render(Shown(kill, GROUP, known=process.known_of(kill.action, process_facts()))),
        "files-to-delete": card.render(Shown(cleanup, GROUP, known=files.known_of(OLD))),
        "reminder": outcomes.remind(Shown(record_of(), GROUP)),
        "dialog-reject": reject_modal.render(record_of()),
        "dialog-edit": edit_modal.render(kill),
        **_shared(),
    }
    return {**_written(cards), "outcomes.yaml": _several(outcome), "brakes.yaml": _several(_brakes())}


def _rows(*states: ActionState) -> list[Record]:
    return [
        record_of(target=f"gpu-{n:03}", via=f"gpu-{n:03}", devices=(), approval=f"apr-{n:012x}", state=state)
        for n, state in enumerate(states, 1)
    ]


def _shared() -> Rendered:
    pending = _rows(*[ActionState.PENDING] * 3)
    several = _rows(*ActionState)
    approved = _rows(*[ActionState.APPROVED] * 4)
    votes = [
        Counted(approved[0].approval, approved[0]),
        Counted("apr-x", approved[1], record.TooLate(record.TooLate.__doc__)),
        Counted("apr-y", approved[2], record.OwnRequest("yours")),
        Counted("apr-z", replace(approved[3], state=ActionState.DENIED), record.NotOpen("It is denied.")),
    ]
    failed = Queued(50, 3, 9, "failed", ("gpu-001", "gpu-002"))
    return {
        "several-pending": shared_card.render([Shown(row, GROUP, seen=SEEN, seen_at=T0) for row in pending], Brakes()),
        "several-in-each-state": shared_card.render([Shown(row, GROUP) for row in several], Brakes()),
        "several-with-a-queue": shared_card.render([Shown(row, GROUP, queued=failed) for row in pending], Brakes()),
        "several-reminder": outcomes.remind_all([Shown(row, GROUP) for row in pending]),
        "several-commands": whole.render(pending),
        "several-votes": tally.render(votes),
        "queue-of-the-next-wave": waiting.render(Queued(57, 3, 1, "wave"), 3, "v"),
        "queue-for-the-brakes": waiting.render(Queued(57, 3, 9, "allowance", at=T0), 3, "v"),
    }


def _brakes() -> Rendered:
    room = Room(Brakes(), (GroupRoom("h100", 1, 3, 2, 6),), (IncidentRoom("i1", 4, NOW),))
    status = BrakeStatus("priya", "maintenance", ("h100",), ("apr-1",), ("apr-2",))
    return {
        "stopped": brakes.stopped("priya", "maintenance"),
        "resumed": brakes.resumed("priya"),
        "breaker reset": brakes.resumed("priya", "h100"),
        "standing": brakes.standing(status),
        "nothing stopped": brakes.standing(BrakeStatus("", "", (), (), ())),
        "room left": brakes.left(room),
        "no room used": brakes.left(Room(Brakes(), (), ())),
        "waiting": brakes.waiting([brakes.Waiting(record_of(), "T1", "C1", "1.0")], "None."),
        "nothing waits": brakes.waiting([], "None."),
    }


def incidents() -> Mapping[str, str]:
    """Return the cards of an incident: progress, diagnosis, ticket, questions, details, forms."""
    waits_ = cast(Incident, {**STATE, "ticket": Ticket(state="waiting", taken_by="olga").model_dump()})
    closed = Ticket(state="resolved", closed_by="olga", true_label="GPU.BUS.Fell_Off", true_cause="loose riser").model_dump()
    about = AboutHosts(hosts=("gpu-002",), found="nothing", checks=22)
    causes = tuple(FELL.model_copy(update={"label": label, "devices": (f"gpu-017/gpu{n}",)}) for n, label in enumerate(TITLES))
    asked = {"about": about, "also_seen": (FELL.label,), "headline": "gpu-002: 22 checks, nothing abnormal."}
    stats = Stats(hosts=4, checks=40, makespan_seconds=12.3)
    following_ = progress.ProgressCard("i1")
    for news in (
        Progress("i1", "summarise", "NCCL timeout on gpu-[017-020]"),
        Progress("i1", "execute", "asking 4 hosts", done=12, total=40),
    ):
        following_ = progress.follow(following_, news)
    stands = standing(
        sample_standing.incident(sample_standing.LADDER.model_copy(update={"rung": 1})), [sample_standing.record(ActionState.EXECUTING)]
    )
    by_hand = REPORT.model_copy(update={"held": (HeldNode(ladder="l1", host="gpu-017"),)})
    empty = Report(item="x", outcome="abstained", questions=("Which hosts?",), suggestions=("Try a smaller batch",))
    return _written(
        {
            "progress": progress.render(following_),
            "diagnosis": diagnosis.render("i1", REPORT, stats, titles=TITLES),
            "diagnosis-of-three-causes": diagnosis.render("i1", REPORT.model_copy(update={"root_causes": causes}), titles=TITLES),
            "diagnosis-of-what-was-asked": diagnosis.render("i1", REPORT.model_copy(update=asked), titles=TITLES),
            "diagnosis-with-unknown-hosts": diagnosis.render("i1", REPORT.model_copy(update={"unknown_hosts": UNKNOWN}), titles=TITLES),
            "no-fault": diagnosis.render("i1", Report(item="x", outcome="no_fault", next_step="Nothing to mend.")),
            "no-cause": diagnosis.render("i1", empty),
            "question": question.render(("Which hosts?",), ("Try a smaller batch",)),
            "living": render_living(Living("i1", by_hand, stats, stands, titles=TITLES)),
            "living-without-a-look": render_living(
                Living("i1", standing=IncidentStanding("ticket", ("Waiting for a person to take it.",)))
            ),
            "ended": ended(IncidentStanding("well", ("Mended.",)), "GPU fell off the bus on gpu-017"),
            "told": told(REPORT),
            "ticket": ticket.render(handoff(STATE), TITLES),
            "ticket-waits": ticket.render(handoff(waits_), TITLES),
            "ticket-closed": ticket.render(handoff(cast(Incident, {**STATE, "ticket": closed})), TITLES),
            "details": details.render(IncidentRows(sample_details.STATE), TITLES, {"gpu-017": "8d3a1c52"}, "an earlier item"),
            "dialog-close": close_modal.render(close_modal.Closing("i1", "GPU.BUS.Fell_Off", "loose riser", ("gpu-017",)), OFFERED),
            "dialog-assign": more.assign_form("i1", "U1"),
            "dialog-correct": more.correct_form("i1", OFFERED, "GPU.BUS.Fell_Off"),
            "dialog-not-useful": feedback.form("i1", "x"),
            "elements": [more.menu("i1"), feedback.row("i1", "x"), *held.rows("i1", by_hand.held)],
        }
    )


def notes_and_home() -> Mapping[str, str]:
    """Return short notes, the Home tab, direct messages and lessons."""
    gone, stuck = [
        Held(f"l{n}", f"gpu-00{n}", "GPU.BUS.Fell_Off", "Olga", NOW - timedelta(hours=n), "an approver said no", why)
        for n, why in ((1, ""), (2, "a remedy was run and is not proved to have helped"))
    ]
    open_ = home.OpenIncident(
        "i1", "handed_off", NOW, "Link down", owners=frozenset({"U1"}), held=(gone,), team="T1", channel="C1", thread_ts="1.0"
    )
    elsewhere = home.OpenIncident("i2", "open", NOW, "GPU gone", elsewhere=True, held=(stuck,))
    tab = home.HomeTab(
        [open_, elsewhere],
        "U1",
        TITLES,
        brakes.waiting([], "None."),
        brakes=brakes.standing(BrakeStatus("", "", (), (), ())),
        note="the fault is there",
        fleet=fleet.render(fleet.glance(GROUPS, [TWO, ONE, held_row()]), [("GPU fell off", 2)], 30, oldest=100),
        shared={"C1": True, "C2": None},
    )
    small: Rendered = {
        "refused": notes.refused("No, because.", ["C0OPS"]),
        "joined": notes.joined("T1", "C1", "1.0"),
        "ask_there": notes.ask_there("T1", "C1", "1.0"),
        "beside": notes.beside(),
        "goes on": notes.goes_on("It goes on."),
        "not stored, Slack retries": notes.not_stored(True),
        "not stored": notes.not_stored(False),
        "nothing said": notes.nothing_said(),
        "not read again": notes.not_read_again(),
        "thread deleted": notes.thread_deleted(open_),
        "enough": notes.enough(timedelta(minutes=3)),
        "passed_over": notes.passed_over(),
        **{f"bug {n}": notes.bug("e1f2", known) for n, known in enumerate((notes.A_MESSAGE, notes.A_DECISION, notes.A_COMMAND), 1)},
        "alerts": firing.render("Fell off", 3, 1, "gpu-[001-003]", ("XidErrors gpu-001",), 2),
    }
    personal: Rendered = {
        "help": direct.asked_help(["C0OPS"]),
        "status": direct.status([open_], [elsewhere], NOW),
        "status without incidents": direct.status([], [], NOW),
        "approvals": direct.approvals(brakes.waiting([], "None.")),
        "over there": direct.over_there("Not here.", ["C0OPS"]),
        "elsewhere": direct.elsewhere("Not here.", ["C0OPS"]),
    }
    taught = Lesson(
        id="les-1", title="GPU gone after a reboot", description="nccl timeout", label="GPU.BUS.Fell_Off", root_cause="loose riser",
        deciding_check="lspci", resolution="reseated", misled=("GPU.THERMAL.Slowdown",), incident="i1", on=T0.date(),
    )  # fmt: skip
    return _written(
        {
            "home": home.render(tab, NOW),
            "home-empty": home.render(home.HomeTab([]), NOW),
            "home-refused": home.refused("Only for full members."),
            "help": home.phrases(grammar.help_rows()),
            "lesson": lesson.render(taught, TITLES),
            "lesson-accepted": lesson.render(taught.model_copy(update={"state": "accepted"}), TITLES, "priya"),
            "dialog-lesson": lesson.form(taught, OFFERED),
        }
    ) | {"notes.yaml": _several(small), "direct.yaml": _several(personal), "knowledge.yaml": _several(_knowledge())}


def _knowledge() -> Rendered:
    steps = tuple(GuideStepRow(id=mark, mark=cast(Any, mark), does=f"Look at {mark}", says="seen") for mark in ("done", "next", "people"))
    unproven = [
        Conjecture(title="Loose riser", cause="vibration", rests=("Xid 79",), confirms="reseat", refutes="again", suggestions=("look",)),
        Conjecture(title="Power", cause="supply", standing="refuted", doubt="712 W"),
    ]
    alike = RecalledLesson(lesson="les-1", label="GPU.BUS.Fell_Off", incident="inc-old", on="2026-03-02", title="GPU gone")
    report = REPORT.model_copy(
        update={
            "guide": GuideRun(id="gpu_lost", title="A GPU is lost", called=True, steps=steps),
            "notes": (SiteNote(page="risers", title="Risers", says=("Reseat them cold.",), source="wiki"),),
            "recalled": (alike,),
        }
    )
    fits = report.model_copy(update={"guide": GuideRun(id="gpu_lost", title="A GPU is lost", steps=steps), "root_causes": ()})
    return {
        "guide that was called": guided.render(report),
        "guide that fits": guided.render(fits),
        "pages": noted.render(report),
        "lesson like it": recalled.render(report, TITLES),
        "lesson that sounds like it": recalled.render(fits, TITLES),
        "ideas": ideas.render(unproven),
        "closed incidents": kept.render(report, {}),
    }


def outside() -> Mapping[str, str]:
    """Return what customers, providers and trackers are shown."""
    causes = (
        TheirCause(WORDS.cause(FALLEN, "en"), True, ("train-01",)),
        TheirCause(WORDS.cause(IFNAME, "en"), False, ("train-01",), ("NCCL_SOCKET_IFNAME=docker0",), "unset NCCL_SOCKET_IFNAME"),
    )
    views: dict[str, CustomerView] = {}
    for stage in get_args(Stage):
        ours = {"yours": causes[1:], "ours": causes[:1], "both": causes}.get(stage, ())
        views[stage] = CustomerView("i1", stage, "received" if stage in ("ours", "both") else "", ours, ("train-01",), ("q_which",))
    views |= {f"people-{state}": CustomerView("i1", "people", state) for state in get_args(State) if state}
    german = CustomerView("i1", "ours", "repairing", causes[:1], ("train-01",), language="de")
    said: Rendered = {kind: answers.answer(kind, views["both"], ["train-01"], ["gpu-9"]) for kind in get_args(answers.Answered)}
    team: Rendered = {
        "root": inside.root("i1", "acme", "C0ACME", "job hangs", ["a.log"]),
        "quoted": inside.quoted("acme", "still", []),
        "noted": inside.noted("They pressed it."),
        "as they see": inside.as_they_see("acme", "C0OPS"),
        "told": inside.told("priya", "We are on it.", fetched=True),
        "form": inside.form("i1", "acme", "We are on it."),
        "preview": inside.preview("i1", "acme", "We are on it.", living.from_people("We are on it.", "en")),
        "waits": waits.rows([waits.WaitsShown("acme", 3, "i1", T0, "incidents", words="job hangs")]),
    }
    sent = sending.ShownSending("i1", "offered")
    ways = {
        "offered": sent,
        "shown": replace(sent, stage="shown", digest="d"),
        "waiting": replace(sent, stage="waiting", by="olga", tries=3, trouble="no route"),
        "refused": replace(sent, stage="refused", refused="too large"),
        "sent": replace(sent, stage="sent", ticket="inc-9", state="repairing", by="olga"),
        "theirs to mend": replace(sent, stage="sent", ticket="inc-9", found=causes[1:]),
    }
    provider: Rendered = {
        **{name: sending.render(view) for name, view in ways.items()},
        "moved": sending.moved(ways["sent"]),
        "says": sending.provider_says("inc-9", "please restart"),
        "arrived": arrived.render("i1", "acme", SAID),
        "news": arrived.news("acme", SAID),
        "lost": arrived.lost("acme"),
    }
    there = following.FollowedTicket("i1", "jira", "Jira", "there", "olga", "GPU-7", "https://jira.example/GPU-7", "In progress")
    trackers: Rendered = {
        **{way: following.render(replace(there, way=cast(Any, way), trouble="no route", tries=2)) for way in get_args(following.Way)},
        "moved": following.moved(there),
        "done": following.moved(replace(there, done=True, state="Done")),
        "remark": following.remark(there, following.TicketRemark("comment", "ann", ("replaced it",), T0)),
        "offers": opening.offers("i1", [("jira", "Jira"), ("snow", "ServiceNow")]),
        "form": opening.render(opening.TrackerForm("i1", "jira", "Jira", "d", "GPU fell off", "all of it", {"Project": "GPU"})),
    }
    return {
        **_written({f"customer-{name}": living.render(view) for name, view in (*views.items(), ("german", german))}),
        "customer-moved.yaml": _several({name: living.moved(view) for name, view in views.items()}),
        "customer-answers.yaml": _several(said),
        "customer-team.yaml": _several(team),
        "provider.yaml": _several(provider),
        "trackers.yaml": _several(trackers),
        "suggestions.yaml": as_yaml([*suggestions.wire(suggestions.PROMPTS)]),
    }


def cases() -> Mapping[str, str]:
    """Return the cards of diagnosed cases as they stand in their threads."""
    return {f"{name.replace(' ', '-')}.yaml": asyncio.run(_thread(name)) for name in CASES}


async def _thread(name: str) -> str:
    return "\n---\n".join(as_yaml(shown) for shown in (await seen_of(name)).cards)
