"""A thread becomes a ticket: everything a human needs who has not read it. Pure."""

from graph.engine.assess import Assessment
from graph.incident.case import Case
from graph.incident.questions import logs_of
from graph.ladders.ends import describe
from graph.reading.counts import sure
from graph.reading.logs import handful, in_words
from graph.report import Report
from graph.state import Hypothesis, Ticket
from tools.inventory.ranges import fold

MOST_TEMPLATES = 8


def hand_over(case: Case, now: Assessment, report: Report) -> Ticket:
    """A new ticket, or the open one with its summary brought up to date."""
    old = case.ticket or Ticket()
    return old.model_copy(update={"summary": summary(case, now, report), "owner": old.owner or _owner(now), "handed": True})


def _owner(now: Assessment) -> str:
    """Whose business the likeliest cause is; the provider's when nobody knows."""
    best = next(iter(now.roots or now.suspects), None)
    return best.leaf.owner if best else "provider"


def summary(case: Case, now: Assessment, report: Report) -> str:
    """Report, hypotheses with verdicts, what was not looked at, where the outputs are."""
    title = now.lens.taxonomy.title
    lines = [f"Reported: {case.brief.text[:400] or '(no words)'}", f"Hosts: {fold(now.hosts) or 'none named'}"]
    lines += [f"Job: {case.brief.job}"] if case.brief.job else []
    tried = [*report.root_causes, *(now.hypothesis(row.label) for row in now.suspects[:3]), *report.ruled_out]
    lines += ["Hypotheses:", *(f"  {_verdict(row, title(row.label))}" for row in {row.label: row for row in tried}.values())]
    done = [row for row in case.ladders if row.proven or row.since]
    lines += ["Done by approved actions:", *(f"  {describe(row, title(row.label))}" for row in done[:6])] if done else []
    if report.likely:
        lines += [
            f"Likely and unproven ({report.likely.by}): {title(report.likely.label)} {sure(report.likely.p)}, {report.likely.because}"
        ]
    lines += (
        ["Unexplained:", *(f"  {fact.host or 'handed in'}: {fact.in_words()[:160]}" for fact in now.unexplained[:6])]
        if now.unexplained
        else []
    )
    lines += (
        ["Could not look:", *(f"  {b.host} {b.check}: {b.why[:120]}" for b in report.could_not_look[:6])] if report.could_not_look else []
    )
    ideas = [f"  {idea.title} ({idea.standing}): {idea.cause}{f' Against it: {idea.doubt}' if idea.doubt else ''}" for idea in report.ideas]
    lines += ["Beyond what I know, as a model thought of it:", *ideas] if ideas else []
    outputs = list(dict.fromkeys(f"{f.host or 'handed in'} {f.check} {f.sha256[:12]}" for f in now.odd if f.sha256))
    lines += ["Outputs:", *(f"  {output}" for output in outputs[:8])] if outputs else []
    logs = handful(logs_of(case), MOST_TEMPLATES)
    lines += ["Logs:", *(f"  {line}" for log in logs for line in in_words(log))] if logs else []
    return "\n".join(lines)


def _verdict(row: Hypothesis, title: str) -> str:
    return f"{title}: {row.verdict} {sure(row.confidence)}, {row.because}"
