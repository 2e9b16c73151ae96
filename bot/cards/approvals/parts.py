"""The parts of an approval card around its core: who is asked, where it stands, what must hold, who voted. Their texts are cut where long."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.cards import blocks
from bot.cards.approvals import words
from bot.cards.blocks import Block
from bot.cards.text import BadId, Line, Part, bold, code, exact_code, italic, mention_group, moment, utc
from tools.acting.conditions import ConditionSeen
from tools.checks import CHECKS
from tools.ledger.record import Record, requesters_of
from tools.ledger.states import OPEN, State

Names = Mapping[str, str]
MOST_CONDITIONS, MOST_VOTES = 10, 8
SEEN: Mapping[bool | None, str] = {True: "✓", False: "✗", None: "?"}


def mentioned(group: str) -> tuple[Part, ...]:
    """The approver group, where there is one."""
    try:
        return (mention_group(group), " ") if group else ()
    except BadId:
        return ()


def asked(record: Record, group: str) -> list[Block]:
    """Who is to decide until when: the one line that calls somebody."""
    if record.state is not State.PENDING:
        return []
    if not record.terms.approvers:
        return [blocks.say("Nobody may approve this: the channel names no `approvers:` group in the inventory, or the group is empty.")]
    until: Line = ("please decide until ", moment(record.decide_by), f" ({utc(record.decide_by)}).")
    return [blocks.section((*mentioned(group), *until, *(" ", bold(count(record)))))]


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
            return [(*since, f"for {record.action.limit_seconds} s at most.")]
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


def conditions(record: Record, seen: Sequence[ConditionSeen], at: datetime | None) -> list[Block]:
    """What must hold, the fault first, and what a dry run saw of it."""
    if record.state not in OPEN:
        return []
    fault = words.fault(record.action)
    still: list[Line] = [(f"• {fault}",)] if fault else []
    if seen:
        when = f" (dry run at {utc(at)})" if at else ""
        lines = still + [saw(one) for one in seen[:MOST_CONDITIONS]]
    else:
        when = ""
        lines = still + [(f"• {condition.says}",) for condition in record.action.conditions[:MOST_CONDITIONS]]
    if not lines:
        return _check(record)
    rest = max(len(seen), len(record.action.conditions)) - MOST_CONDITIONS
    lines += [(f"… and {rest} more",)] if rest > 0 else []
    again: Line = (italic("Read again just before it starts; if one does not hold, nothing is run."),)
    return [*_check(record), blocks.section((bold("Must hold"), when), *lines, again)]


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


def about(record: Record, names: Names) -> Block:
    """Proof, undo and who asked for it."""
    action = record.action
    asked_by = ", ".join(named(who, names) for who in sorted(requesters_of(action)))
    return blocks.fields(
        [
            ("Proof", (words.proof(action),)),
            ("Undo", (words.undo(action),)),
            ("Asked for by", (asked_by + ", who therefore cannot approve it" if asked_by else "RackMedic, from what it found",)),
            ("Approvals", (f"{record.approvals} of {record.terms.quorum}",)),
        ]
    )


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


def small_print(record: Record) -> Block:
    """What it is known by, for logs and the audit."""
    action = record.action
    return blocks.context(
        (italic(f"{action.approval} · incident {action.incident} · time limit {action.limit_seconds} s"),),
        (italic(f"policy {action.policy[:16] or '–'} · catalogue {action.catalogue[:16] or '–'} · boot {action.boot_id or '–'}"),),
    )


def people_named(text: str, names: Names) -> str:
    """A text of ours with people's names where their ids stand."""
    for who in names:
        text = text.replace(who, named(who, names))
    return text


def named(who: str, names: Names) -> str:
    """A person by name, without mentioning them."""
    return names.get(who) or who.rpartition(":")[2] or who
