"""The incident told to somebody else, and RackMedic told to whoever asks: summaries, help, what it is and sees, and courtesy. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from graph.conversation.intents import INTENTS, Intent
from graph.incident.answers.known import Asked, ago, cited, offer, quoted, read_at, rests_on, ruled_out_by, say, sure, where
from graph.incident.answers.people import brief, owner_of, waiting_for
from graph.incident.answers.reasons import why_unsure
from graph.incident.answers.steps import waiting
from graph.incident.concluded import Concluded
from graph.ladders.ends import describe
from graph.ladders.held import held
from graph.reading import counts
from graph.state import Ladder
from tools.inventory.ranges import fold

WORDS_APPROVE_NOTHING = "Words approve nothing"

HELPFUL = (
    Intent.HOST_STATE, Intent.SHOW_OUTPUT, Intent.SHOW_PICTURE, Intent.EXPLAIN, Intent.WHY_NOT, Intent.COMPARE, Intent.WHAT_NOW, Intent.ON_APPROVE,
    Intent.SUMMARY, Intent.RECHECK, Intent.RUN_CHECK, Intent.WISH_REMEDY, Intent.HAND_OFF, Intent.CLOSE,
)  # fmt: skip
"""What the help in a thread names; the rest stands in the documentation."""


async def summary(asked: Asked) -> Concluded:
    """For a manager five lines without jargon, for a ticket structured; where nobody says for whom, the first."""
    return _for_ticket(asked) if asked.said.audience == "ticket" else _for_manager(asked)


async def report(asked: Asked) -> Concluded:
    """The incident as a page to keep; whoever shows this answer writes it."""
    told = say(asked, ["The post-incident report: first the page, then its appendix, as a file."])
    return replace(told, report=told.report.model_copy(update={"page": True}))


def _for_manager(asked: Asked) -> Concluded:
    case, roots, taxonomy = asked.case, asked.roots, asked.now.lens.taxonomy
    if roots:
        machines = fold(asked.guilty) if asked.guilty else "no machine is at fault"
        what = f"What: {taxonomy.leaf(roots[0].label).customer_words or asked.title(roots[0].label)}"
        more = f" Also: {', '.join(f'{asked.title(row.label)}{cited(row)}' for row in roots[1:3])}." if len(roots) > 1 else ""
        lines = [what + more, f"Where: {machines}; {len(asked.seen)} machines looked at, {sure(roots[0])}{cited(roots[0])}."]
    elif mended := _mended(asked):
        labels = list(dict.fromkeys(row.label for row in mended))
        told = "; ".join(taxonomy.leaf(label).customer_words or asked.title(label) for label in labels[:3])
        lines = [f"What: {told}", f"Where: {_targets(mended)}; mended, and the proof passed."]
    elif case.report and case.report.outcome == "no_fault":
        lines = [f"What: no fault was found on {fold(asked.seen)} ({counts.looked(case.stats)})."]
    else:
        lines = [f"What: the cause is not known yet; {len(asked.seen)} machines were looked at."]
    owner = owner_of(asked)
    return say(
        asked,
        [
            *lines,
            f"Since: reported {case.opened:%H:%M} UTC, {ago(case.opened, asked.at)}.",
            f"State: {_state(asked)}",
            f"Who: {owner or 'nobody'} is on it.",
        ],
    )


def _mended(asked: Asked) -> list[Ladder]:
    """The fixes whose proof passed. Once it has, nothing shows the cause any more, and it is what the incident was all the same."""
    return [row for row in asked.case.ladders if row.proven and row.label in asked.now.lens.taxonomy.leaves]


def _targets(rows: Sequence[Ladder]) -> str:
    return fold(tuple(dict.fromkeys(host for row in rows for host in row.target.split(","))))


def _where_it_stands(asked: Asked) -> str:
    """Where in its life it is, and what comes next."""
    life = asked.case.lifecycle
    return "closed." if life == "closed" else f"{life.replace('_', ' ')}; {_state(asked)}"


def _state(asked: Asked) -> str:
    case = asked.case
    if case.lifecycle == "closed":
        return "closed."
    if asks := waiting(asked):
        return f"a fix waits for approval ({brief(asks[0])})."
    going = [row for row in case.ladders if row.open]
    if going:
        return f"{describe(going[0], asked.title(going[0].label))}."
    if case.report and case.report.questions:
        return "waiting for an answer to my questions."
    step = case.report.next_step if case.report else ""
    return f"next: {step}" if step else "nothing is open."


def _for_ticket(asked: Asked) -> Concluded:
    case, now, report = asked.case, asked.now, asked.case.report
    lines = [f"Incident {case.id}, opened {case.opened:%Y-%m-%d %H:%M} UTC, {case.lifecycle.replace('_', ' ')}"]
    said = " ".join(case.brief.text.split())
    lines.append(f"Reported: {said[:240]}{'…' if len(said) > 240 else ''}" if said else "Reported: (no words)")
    lines.append(f"Hosts looked at: {fold(asked.seen) or 'none'}" + (f"; job {case.brief.job}" if case.brief.job else ""))
    for row in asked.roots[:3]:
        lines.append(f"Cause: {asked.title(row.label)} ({where(row)}), {sure(row)}")
        lines += [quoted(asked, line) for line in row.evidence[:2]]
    mended = [] if asked.roots else _mended(asked)
    lines += [f"Cause: {asked.title(row.label)} ({row.target}), mended" for row in mended[:3]]
    if not asked.roots and not mended:
        lines.append("Cause: none proven" + (f"; {why_unsure(asked)[0][:160]}" if now.why_unsure else ""))
    out = [f"{asked.title(row.label)} ({ruled_out_by(asked, row.label)})" for row in now.ruled_out(3)]
    lines += [f"Ruled out: {', '.join(out)}"] if out else []
    blind = now.could_not_look()
    lines += [f"Could not look: {', '.join(f'{row.check} on {row.host}' for row in blind[:4])}"] if blind else []
    lines += [f"Fix: {describe(row, asked.title(row.label))}" for row in case.ladders[:3]]
    lines += [f"Next: {report.next_step}"] if report and report.next_step else []
    return say(asked, [*lines, f"On it: {owner_of(asked) or 'nobody'}"], most=20)


async def status(asked: Asked) -> Concluded:
    """What is known, what waits, and what it rests on."""
    case, found, title = asked.case, asked.roots, asked.title
    mended = [] if found else [f"{title(row.label)} ({row.target}) is mended" for row in _mended(asked)[:3]]
    what = "; ".join(mended or [f"{title(row.label)} ({where(row)}), {sure(row)}{cited(row)}" for row in found[:3]]) or (
        "I found no fault" if case.report and case.report.outcome == "no_fault" else "I have proven no cause so far"
    )
    likely = [] if found else asked.now.suspects[:2]
    suspects = [f"{row.leaf.title} is likely and unproven ({rests_on(match.fact for match in row.support)})" for row in likely]
    lines = [f"{'; '.join([what, *suspects])}.", f"State: {_where_it_stands(asked)}"]
    lines += [f"• {describe(row, title(row.label))}" for row in case.ladders if row.open][:3]
    lines += [f"Held: {line.in_words(title(line.label))}" for line in held(case.ladders)[:3]]
    ticket, owner = case.ticket, owner_of(asked)
    lines += [f"Ticket: {ticket.state}{f', taken by {ticket.taken_by}' if ticket.taken_by else ''}."] if ticket and ticket.handed else []
    lines += [f"{owner} is on it."] if owner and not (ticket and ticket.handed) else []
    latest = max((at for host in asked.seen if (at := read_at(asked, host))), default=None)
    looked = f", last {ago(latest, asked.at)}" if latest else ""
    return say(
        asked,
        [*lines, f"{counts.looked(case.stats)}{looked}. {offer(asked, asked.guilty)}".strip()],
        most=12,
    )


async def meta(asked: Asked) -> Concluded:
    """Who we are and what we may look at, in this place."""
    case, checks = asked.case, asked.now.lens.passive()
    hosts = case.visible
    where_to = f"{len(hosts)} hosts: {fold(hosts)[:160]}" if hosts else "no hosts; ask an operator to bind this channel in the inventory"
    latest = max((at for host in asked.seen if (at := read_at(asked, host))), default=None)
    looked = (
        f"In this thread I have looked at {fold(asked.seen)[:120]}, last {ago(latest, asked.at)}."
        if asked.seen
        else "I have looked at nothing yet."
    )
    model = (
        "a language model helps me to understand words; what is wrong is decided by rules over what the machines print"
        if asked.ports.model
        else "no language model is at work: rules over what the machines print decide"
    )
    return say(
        asked,
        [
            "I am RackMedic, a bot that finds out why GPU training broke.",
            f"From here I can see {where_to}.",
            f"I read them with {len(checks)} checks that change nothing; tests that need idle GPUs and every fix wait for Approve on a card.",
            looked,
            f"In short: {model}.",
        ],
    )


async def small_talk(asked: Asked) -> Concluded:
    """Short, with the one thing worth knowing."""
    return say(asked, [f"Hello. {_state(asked)[0].upper()}{_state(asked)[1:]}"])


async def thanks(asked: Asked) -> Concluded:
    """Short."""
    return say(asked, ["You are welcome."])


async def helps(asked: Asked) -> Concluded:
    """What can be said here."""
    rows = [f"• {INTENTS[one].form}: {INTENTS[one].means}" for one in HELPFUL]
    return say(asked, ["In your own words, for example:", *rows, "Only the Approve button approves."], most=len(rows) + 2)


async def typed_approval(asked: Asked) -> Concluded:
    """Words approve nothing: the button does."""
    asks = waiting(asked)
    if not asks:
        return say(asked, [f"{WORDS_APPROVE_NOTHING}, and nothing is up for decision now."])
    live = await asked.ports.decisions(asked.case.id)
    what = waiting_for(asks)
    if live is None:
        return say(asked, [f"{WORDS_APPROVE_NOTHING}. In Slack the Approve button on the card does: {what}."])
    names = list(dict.fromkeys(name for row in live if row.open for name in row.approvers))
    may = f"Who may: {', '.join(names[:6])}{' …' if len(names) > 6 else ''}." if names else ""
    return say(asked, [f"{WORDS_APPROVE_NOTHING}. Press Approve on the card: {what}.", may])


async def not_understood(asked: Asked) -> Concluded:
    """One honest line, and what may have been meant."""
    forms = [f"“{INTENTS[one].form}”" for one in asked.said.suggestions if INTENTS[one].form][:2]
    hint = f" Did you mean {' or '.join(forms)}?" if forms else " Try “what about gpu-001?” or “help”."
    return say(asked, [f"I did not understand that, so I did nothing.{hint}"])
