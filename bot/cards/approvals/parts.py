"""The parts of an approval card around its core: who is asked, where it stands, what must hold, who voted. Their texts are cut where long."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.cards import blocks
from bot.cards.approvals import words
from bot.cards.blocks import Block
from bot.cards.text import BadId, Line, Part, bold, clip, code, exact_code, italic, mention_group, moment, utc
from tools.acting.conditions import ConditionSeen
from tools.checks import CHECKS
from tools.ledger.record import Record, requesters_of
from tools.ledger.states import OPEN, State

NOBODY_MAY_APPROVE = "Nobody may approve this"

Names = Mapping[str, str]
MOST_CONDITIONS, MOST_VOTES, MOST_NAMED, SAID = 10, 8, 5, 400
SEEN: Mapping[bool | None, str] = {True: "✓", False: "✗", None: "?"}


def mentioned(group: str) -> tuple[Part, ...]:
    """The approver group, where there is one."""
    try:
        return (mention_group(group), " ") if group else ()
    except BadId:
        return ()


def asked(record: Record, group: str) -> Line:
    """Who is to decide until when: the one line that calls somebody. Empty where there is nothing to decide."""
    if record.state is not State.PENDING:
        return ()
    if not record.terms.approvers:
        return (f"{NOBODY_MAY_APPROVE}: the channel names no `approvers:` group in the inventory, or the group is empty.",)
    until: Line = ("decide until ", moment(record.decide_by), f" ({utc(record.decide_by)}) · ")
    return (*mentioned(group), *until, bold(count(record)))


def count(record: Record) -> str:
    """`1 of 2 approvals`."""
    return f"{record.approvals} of {record.terms.quorum} approval{'s' if record.terms.quorum != 1 else ''}"


def warned(warning: str) -> list[Block]:
    """What everybody must know before deciding."""
    return [blocks.say("⚠ ", bold(warning))] if warning else []


def stands(record: Record, names: Names, began: datetime | None, held: str) -> list[Block]:
    """How it goes on, or how it ended."""
    lines = stands_lines(record, names, began, held)
    return [blocks.section(*lines)] if lines else []


def stands_lines(record: Record, names: Names, began: datetime | None, held: str) -> list[Line]:
    """The same as lines."""
    says = people_named(record.says, names)
    said: list[Line] = [(f"Not so any more: {says}" if _by_a_condition(record) else says,)] if says else []
    who = named(record.ended_by, names) if record.ended_by else ""
    match record.state:
        case State.APPROVED:
            start = record.start_by or record.decide_by
            waits: list[Line] = [("Waits: ", held)] if held else []
            return [("It starts by itself, or expires ", moment(start), f" ({utc(start)})."), *waits]
        case State.EXECUTING:
            since: Line = ("Running since ", moment(began), f" ({utc(began)}), " if began else "") if began else ("Running, ",)
            return [("📡 ", held)] if held else [(*since, f"for {words.time_limit(record.action)} at most.")]
        case State.DONE | State.FAILED:
            return [*_ended(record, who), *said]
        case State.UNKNOWN:
            return [*said, *_look(record)]
        case State.DENIED | State.REVOKED:
            verb = "rejected it" if record.state is State.DENIED else "took it back"
            return [(bold(who or "Somebody"), f" {verb}{': ' + says if says else '.'}")]
        case State.EXPIRED | State.SUPERSEDED:
            return [*said, ("Nothing was run.",)]
        case _:
            return []


def _by_a_condition(record: Record) -> bool:
    """Whether what the host's kit said is a precondition that it found otherwise."""
    refused = record.state is State.FAILED and record.exit_status is None
    return refused and any(record.says.startswith(f"{condition.says}:") for condition in record.action.conditions)


def _ended(record: Record, who: str) -> list[Line]:
    """Exit status, and what the proof says."""
    if who:
        told = "ran" if record.state is State.DONE else "did not run"
        return [(bold(who), f" looked at the host and says that it {told}.")]
    status = "" if record.exit_status is None else f" with exit status {record.exit_status}"
    ran = record.state is State.DONE or record.exit_status is not None or record.outcome
    proof = words.proved(record) or ("The proof runs now." if record.state is State.DONE else "")
    return [(f"The command ended{status}. " if ran else "The command did not run. ", proof)]


def _look(record: Record) -> list[Line]:
    host = exact_code(words.targets(record.action))
    return [
        (host, " stays locked until somebody looks there and says on its card whether it ran."),
        ("The host's own record: ", code(f"sudo rackmedic-act settle {record.digest}")),
    ]


def output(tail: Sequence[str]) -> list[Block]:
    """The end of what the command printed."""
    return [blocks.quote(tail, width=200, limit=1800)] if tail else []


def conditions(record: Record, seen: Sequence[ConditionSeen]) -> list[Block]:
    """What must hold: the fault first, then what a dry run did not find so, or all where there was none. What it found so stands below."""
    if record.state not in OPEN:
        return []
    fault = words.fault(record.action)
    still: list[Line] = [(f"• {fault}",)] if fault else []
    unmet = [saw(one) for one in seen if one.ok is not True]
    unseen = [] if seen else [(f"• {condition.says}",) for condition in record.action.conditions]
    lines = [*still, *unmet, *unseen]
    if not lines:
        return _check(record)
    rest = len(lines) - MOST_CONDITIONS
    more: list[Line] = [(f"… and {rest} more",)] if rest > 0 else []
    if lines == still:
        return [*_check(record), blocks.say(bold("Must still hold:"), f" {words.still(record.action)}")]
    title: Line = (bold("Must hold"), " when it starts:")
    return [*_check(record), blocks.section(title, *lines[:MOST_CONDITIONS], *more)]


def holds(record: Record, seen: Sequence[ConditionSeen], at: datetime | None) -> Line:
    """What a dry run found so, each condition by name."""
    good = [one.says for one in seen if one.ok is True] if record.state in OPEN else []
    shown = " · ".join(good[:MOST_CONDITIONS])
    rest = f" · and {len(good) - MOST_CONDITIONS} more" if len(good) > MOST_CONDITIONS else ""
    return (clip(f"✓ {shown}{rest}{f' ({at:%H:%M} UTC)' if at else ''}", 2 * SAID),) if good else ()


def saw(one: ConditionSeen) -> Line:
    """A condition and what was seen of it."""
    printed = one.saw.strip()[:160]
    found: tuple[Part, ...] = (" · ", code(printed)) if printed else (" · printed nothing",)
    return (f"{SEEN[one.ok]} {one.says}", *(found if one.ok is not None else (" · could not look: ", printed or "no answer")))


def _check(record: Record) -> list[Block]:
    """What an exclusive check runs on each host."""
    check = CHECKS.get(record.action.args.get("check", "")) if record.action.remedy == "run_check" else None
    if check is None:
        return []
    return [blocks.section((bold("The check asks"), f" {check.asks}"), *((code(" ".join(row.argv)),) for row in check.commands[:3]))]


def asked_for(record: Record, names: Names) -> list[Block]:
    """Who wished for it, where that was a person: they cannot approve it."""
    asked_by = ", ".join(named(who, names) for who in sorted(requesters_of(record.action)))
    said = [blocks.say(bold("Asked for by"), f" {asked_by}, who therefore cannot approve it")] if asked_by else []
    return [*said, *_who_else(record, names)]


def deciders(record: Record) -> list[str]:
    """Whom sets of the policy name, while there is something to decide; none where the channel's own approvers do."""
    terms = record.terms
    if record.state is not State.PENDING or not terms.sets:
        return []
    return sorted(terms.approvers - requesters_of(record.action))


def _who_else(record: Record, names: Names) -> list[Block]:
    """Who decides and is not called by the channel's user group: sets of the policy."""
    people = _some([named(who, names) for who in deciders(record)])
    line: Line = (bold(f"For {' and '.join(record.terms.sets)} to decide"), f": {people}")
    return [blocks.short(line, room=2 * SAID)] if people else []


def _some(rows: Sequence[str]) -> str:
    rest = len(rows) - MOST_NAMED
    return ", ".join(rows[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def small_print(record: Record, seen: Sequence[ConditionSeen] = (), at: datetime | None = None) -> Block:
    """What a dry run found so, proof, undo and time limit. TooLong where that does not fit."""
    action = record.action
    return blocks.whole_context(
        *([holding] if (holding := holds(record, seen, at)) else []),
        (
            clip(f"Proof: {words.proof(action)}", SAID),
            f" · {clip(f'Undo: {words.undo(action)}', SAID)} · Time limit: {words.time_limit(action)}",
        ),
    )


def identity(record: Record) -> Block:
    """Return the ids by which an action is approved and found again, the digest whole. TooLong where they do not fit."""
    action = record.action
    return blocks.whole_context((italic(f"{action.approval} · {action.incident}"),), ("digest ", exact_code(action.digest)))


def votes(record: Record, names: Names) -> list[Block]:
    """Who said what when."""
    lines = vote_lines(record, names)
    return [blocks.section(*lines)] if lines else []


def vote_lines(record: Record, names: Names) -> list[Line]:
    """The same as lines, the latest last."""
    lines: list[Line] = []
    for vote in sorted(record.votes, key=lambda one: one.at)[-MOST_VOTES:]:
        mark, verb = ("✓", "approved") if vote.verdict == "approve" else ("✗", "rejected")
        at = utc(datetime.fromisoformat(vote.at))
        lines.append((f"{mark} ", bold(named(vote.voter, names)), f" {verb} at {at}{': ' + vote.reason if vote.reason else ''}"))
    return lines


def people_named(text: str, names: Names) -> str:
    """A text of ours with people's names where their ids stand."""
    for who in names:
        text = text.replace(who, named(who, names))
    return text


def named(who: str, names: Names) -> str:
    """A person by name, without mentioning them."""
    return names.get(who) or who.rpartition(":")[2] or who
