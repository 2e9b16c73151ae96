"""Turns that look at little: at what decided, when somebody says that it works again or does not; at what news point to, once everything
was looked at. What they change is told, and nothing else. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from graph.context import GraphContext
from graph.dialogue.intents import Intent
from graph.dialogue.said import get_parsed_message
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.cause_presence import CausePresence, assess_presence
from graph.engine.check_selection import list_first_wave
from graph.engine.priors import compute_word_priors
from graph.extraction.physical import physical_reports
from graph.extraction.reports import parse_report
from graph.incident.context import IncidentContext, build_reference_data
from graph.incident.host_findings import foreign_said
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.turn_result import TurnResult
from graph.report import Report
from graph.state import Hypothesis, IncidentBrief
from tools.inventory.host_ranges import fold_host_names

UNJUDGED: Final = "Noted. No check of mine can judge that, so I call nothing safe until somebody has seen to it. Have it looked at now."
RECHECK_INTENTS = frozenset({Intent.FIXED, Intent.STILL_BROKEN})


def is_narrow_recheck(case: IncidentContext) -> bool:
    """Whether this turn only looks at what decided before. Where no cause was found, what still goes wrong is looked for everywhere."""
    if case.kind != "recheck" or case.message.intent not in RECHECK_INTENTS or case.report is None:
        return False
    return bool(case.report.root_causes) or case.message.intent is Intent.FIXED


def list_deciding_checks(case: IncidentContext, now: Assessment) -> list[tuple[str, str]]:
    """(host, check) pairs that showed the causes of the last report and disturb nobody."""
    causes = _list_reported_causes(case)
    cited = [(line.host, line.check) for row in causes for line in row.evidence if line.host]
    told = [(host, check) for row in causes for host in row.hosts for check in row.checks]
    passive = {check.id for check in now.lens.list_passive_checks()}
    return [pair for pair in dict.fromkeys((*cited, *told)) if pair[1] in passive and pair[0] in case.visible]


def _list_reported_causes(case: IncidentContext) -> Sequence[Hypothesis]:
    """Those of the last report, on the hosts that the message names if it names any."""
    rows, hosts = case.report.root_causes if case.report else (), set(case.message.hosts)
    return [row for row in rows if not hosts or hosts & {*row.hosts, *(line.host for line in row.evidence)}]


@dataclass(frozen=True, slots=True)
class CauseRecheck:
    """How a cause of the last report stands on its host after the new look."""

    cause: Hypothesis
    title: str
    presence: CausePresence


def answer_narrow_recheck(concluded: TurnResult, case: IncidentContext, now: Assessment, ports: GraphContext) -> TurnResult:
    """The turn's conclusion as an answer: what is still there, what could not be looked at, or that it is gone, which may close it."""
    rows = [row for cause in _list_reported_causes(case) for row in _recheck_cause(cause, case, now, ports)]
    lines = [_render_recheck(row) for row in rows[:4]]
    fixed = case.message.intent is Intent.FIXED
    gone = all(row.presence.answer == "gone" for row in rows)
    held = [row.target for row in case.remediations if row.drained]
    busy = [row for row in case.remediations if row.is_open and (row.drained or row.since is not None)]
    came: TurnEvent | None = None
    if not rows:
        lines = ["Good to hear. I had found no cause, so there was nothing to look at again. Say “close” to close it."]
    elif gone and fixed and not (held or busy):
        lines, came = [*lines, "Closed. Say “reopen” if it comes back."], TurnEvent.CLOSED
    elif gone and fixed:
        lines.append(f"{fold_host_names(held or [row.target for row in busy])}: its fix goes on, so I do not close yet.")
    elif gone:
        lines.append("What do you see now? Send me the error, or say `recheck` and I look at everything.")
    elif any(row.presence.answer == "unseen" for row in rows):
        lines.append("What could not be looked at is not called mended.")
    elif concluded.report.next_step:
        lines.append(f"Next: {concluded.report.next_step}")
    report = concluded.report.model_copy(update={"reply": "\n".join(lines), "questions": () if fixed else concluded.report.questions})
    return replace(concluded, report=report, lifecycle=get_next_lifecycle(case.lifecycle, came) if came else concluded.lifecycle)


def _recheck_cause(cause: Hypothesis, case: IncidentContext, now: Assessment, ports: GraphContext) -> list[CauseRecheck]:
    """A cause on each of its hosts; one without a host by all that was read."""
    leaf = ports.taxonomy.leaves.get(cause.label)
    if leaf is None:
        return []
    if not cause.hosts:
        return [CauseRecheck(cause, leaf.title, assess_presence(leaf, cause.devices, now))]
    lens = build_reference_data(ports, case.facts)
    own = {host: assess_facts([fact for fact in case.facts if fact.host == host], lens, [host]) for host in cause.hosts[:8]}
    found = [
        CauseRecheck(cause, leaf.title, assess_presence(leaf, _list_devices_on_host(cause, host), alone)) for host, alone in own.items()
    ]
    order = {"shown": 0, "likely": 1, "unseen": 2, "gone": 3}
    return sorted(found, key=lambda row: order[row.presence.answer])[:4]


def _list_devices_on_host(cause: Hypothesis, host: str) -> tuple[str, ...]:
    return tuple(name for name in cause.devices if name.partition("/")[0] == host)


def _render_recheck(row: CauseRecheck) -> str:
    where = ", ".join(row.cause.devices[:4]) or fold_host_names(row.cause.hosts) or "the job"
    what = {
        "shown": f"Still there: {row.title} ({where}): {row.presence.says}.",
        "likely": f"Not sure: {row.title} ({where}): {row.presence.says}.",
        "unseen": f"Could not look whether {row.title} ({where}) is gone: {row.presence.says}.",
        "gone": f"Looked again: {row.title} ({where}) shows no more.",
    }
    return what[row.presence.answer]


MAX_SUSPECTS: Final = 3
"""Causes that a piece of news may point to."""
MAX_FRESH_AGE: Final = timedelta(minutes=3)
CHECKS_BY_CHANGED_PART: Final[Mapping[str, tuple[str, ...]]] = {
    "driver": ("vers", "mods", "env", "smi"),
    "cuda": ("vers", "env", "docker"),
    "nccl": ("vers", "env"),
    "image": ("vers", "env", "docker"),
    "container": ("vers", "env", "docker"),
    "kernel": ("vers", "mods", "dmesg"),
    "firmware": ("vers", "ibstat"),
    "cable": ("ibstat",),
}
"""What to read again when people say that they changed it."""


def brings_new_facts(case: IncidentContext) -> bool:
    """Whether a message tells something new about what was looked at before, cause found or not, and is no command and no question."""
    told = bool(case.turn.said) or get_parsed_message(case.item) is not None
    plain = not case.turn.only and not case.turn.unknown and not {"hosts", "job"} & case.item.data.keys()
    known = (
        case.report is not None and case.report.outcome in ("diagnosed", "no_fault", "abstained") and any(fact.host for fact in case.facts)
    )
    return case.kind == "reply" and told and plain and known and case.message.intent is Intent.NEW_FACTS


def list_checks_for_news(case: IncidentContext, now: Assessment) -> list[tuple[str, str]]:
    """(host, check) pairs that the news point to: everything cheap that was never asked, as on hosts that are named now or where a look ended
    early; and elsewhere what shows the causes that the words sound like and what people say they changed, unless it was read just now."""
    new = parse_report(case.item.text, case.names, case.item.at)
    seen, asked = {fact.host for fact in case.facts}, {(fact.host, fact.check) for fact in case.facts}
    asked -= {(fact.host, fact.check) for fact in case.facts if fact.status.blind and fact.host in new.hosts}  # may be seen by now
    first = [pair for pair in list_first_wave(now.lens, dict.fromkeys((*new.hosts, *case.hosts))) if pair not in asked]
    fresh = {(fact.host, fact.check) for fact in case.facts if fact.time and case.item.at - fact.time < MAX_FRESH_AGE}
    passive = {check.id for check in now.lens.list_passive_checks()}
    wanted = [
        check
        for check in _list_implied_checks(case, now, IncidentBrief(text=case.item.text, symptoms=new.symptoms, signatures=new.signatures))
        if check in passive
    ]
    hosts = [host for host in (new.hosts or case.hosts) if host in seen]
    return [*first, *((host, check) for host in hosts for check in wanted if (host, check) not in fresh)]


def _list_implied_checks(case: IncidentContext, now: Assessment, news: IncidentBrief) -> list[str]:
    """Checks, by what is said."""
    likely = compute_word_priors(now.lens.taxonomy, news) if set(news.symptoms) - {"vague"} or news.signatures else {}
    labels = sorted(likely, key=lambda label: -likely[label])[:MAX_SUSPECTS]
    leaves = [now.lens.taxonomy.get_leaf(label) for label in labels]
    words = news.text.lower()
    changed = [check for word, checks in CHECKS_BY_CHANGED_PART.items() if word in words for check in checks]
    return list(
        dict.fromkeys(
            [
                *changed,
                *(check.id for leaf in leaves for check in now.lens.list_deciding_checks(leaf)),
                *(c for leaf in leaves for c in leaf.checks),
            ]
        )
    )


def add_change_summary(concluded: TurnResult, case: IncidentContext, found: str, about: str) -> TurnResult:
    """The conclusion after news: one line where nothing changes by them, else what was believed before. `found`: the causes in words;
    `about`: what was seen on the hosts that the news name."""
    before, after = case.report, concluded.report
    reported = bool(physical_reports(case.item.text))
    if before is None:
        return concluded
    if _get_conclusion_key(before) != _get_conclusion_key(after) or after.unknown_hosts or after.unknown_job:
        was = before.headline if before.headline != after.headline else ""
        return replace(concluded, report=after.model_copy(update={"changed": f"Changed. Before: {was}" if was else "Changed."}))
    odd = after.about is not None and after.about.found in ("odd", "fault")
    odd = odd or bool(case.item.attachments)
    if after.questions:
        return replace(concluded, report=after.model_copy(update={"changed": "Noted; no cause is proven by it."}))
    stays = f"The cause stays: {found}." if after.root_causes else after.headline if after.outcome == "abstained" else ""
    first = UNJUDGED if reported else "Noted; no cause is proven by it." if odd else "Noted; nothing that I know changes by it."
    reply = " ".join(part for part in (first, foreign_said(case) if after.outcome != "abstained" else "", about, stays) if part)
    return replace(concluded, report=after.model_copy(update={"reply": reply}))


def _get_conclusion_key(report: Report) -> tuple[str, frozenset[tuple[str, tuple[str, ...]]]]:
    return report.outcome, frozenset((row.label, tuple(sorted(row.hosts))) for row in report.root_causes)
