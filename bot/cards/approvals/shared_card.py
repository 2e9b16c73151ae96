"""One card for several actions of the same remedy: what is the same said once, then a row for each action, then the buttons about all.

"Approve all" carries every pending action with its digest; whoever presses it casts one vote for each. Nothing else is shared.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from bot.cards import blocks
from bot.cards.approvals import card as approval
from bot.cards.approvals import parts, waiting, words
from bot.cards.approvals import row as approval_row
from bot.cards.approvals.card import APPROVE_ALL, SHOW_ALL, Shown
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, Part, bold, clip, code, exact, exact_code, moment, plain, size, utc
from tools.ledger.brakes import Brakes
from tools.ledger.record import Record, requesters_of
from tools.ledger.states import OPEN, State

HOSTS = 400
"""Hosts are named together where they fit into this; each row names its own anyhow."""
CONDITIONS, PROOF, WARNING = 500, 200, 300


_UNTOUCHED = frozenset({State.DENIED, State.EXPIRED, State.REVOKED, State.SUPERSEDED})
"""Ends after which a host was not changed."""


def render(shown: Sequence[Shown], brakes: Brakes) -> Card:
    """The card in its present state. All are of one remedy and one cause."""
    records = [one.record for one in shown]
    command = _command(records)
    rows = [block for one in shown for block in approval_row.render(one, told_above=bool(command))]
    core = [*command, *rows]
    head = _head(records)
    made = blocks.card(
        head,
        [
            blocks.header(head),
            *_asked(records, shown[0].group),
            *waiting.render(shown[0].queued, len(shown), approval.carry(records[0])),
            _what(shown),
            *parts.warned(shown[0].warning[:WARNING]),
            *_too_many(records, brakes),
            *core,
            blocks.divider(),
            *_must_hold(shown),
            _about(records, shown[0], brakes),
            *_buttons(records),
        ],
    )
    return made if all(block in made.blocks for block in core) else _too_large(records)


def headline(records: Sequence[Record]) -> str:
    """What is read in five seconds."""
    mark, begins = gist(records)
    actions = [record.action for record in records]
    hosts = words.folded([action.target for action in actions])
    return f"{mark} {begins} {words.does_each(actions)} · {exact(hosts)} · {actions[0].risk}"


def gist(records: Sequence[Record]) -> tuple[str, str]:
    """(mark, how the headline begins): what most wants somebody's eyes, and once all is over how many are well."""
    states = Counter(record.state for record in records)
    if states[State.PENDING]:
        return words.MARKS[State.PENDING], f"Approve {states[State.PENDING]}?"
    if states[State.UNKNOWN]:
        return words.MARKS[State.UNKNOWN], f"{states[State.UNKNOWN]} in doubt:"
    for state, begins in ((State.EXECUTING, "Running"), (State.APPROVED, "Approved")):
        if states[state]:
            return words.MARKS[state], f"{begins} {states[state]} of {len(records)}:"
    if any(record.state is State.DONE and not record.outcome for record in records):
        return words.MARKS[State.DONE], words.HEADS[State.DONE]
    return _over(records)


def _over(records: Sequence[Record]) -> tuple[str, str]:
    well = [record for record in records if is_well(record)]
    if not well:
        return _none(records)
    said = {words.standing(record)[1] for record in well}
    word = {"passes now": "pass now", "cured": "cured", "done": "done"}.get(said.pop(), "well") if len(said) == 1 else "well"
    return ("✅", f"All {len(records)} {word}:") if len(well) == len(records) else ("🟡", f"{len(well)} of {len(records)} {word}:")


def _none(records: Sequence[Record]) -> tuple[str, str]:
    """Of those of which none is well: what became of all alike, else whether anything was run at all."""
    ends = {words.standing(record) for record in records}
    if len(ends) == 1:
        mark, word = ends.pop()
        return mark, f"{'Both' if len(records) == 2 else f'All {len(records)}'} {word}:" if len(records) > 1 else f"{word.capitalize()}:"
    began = any(record.state in (State.DONE, State.FAILED) and not words.is_refused(record) for record in records)
    return ("❌", f"None of {len(records)} worked:") if began else ("🚫", f"None of {len(records)} was run:")


def is_well(record: Record) -> bool:
    """It ran, and its proof passed."""
    return record.state in (State.DONE, State.FAILED) and record.outcome in ("passes_now", "cured")


def tally(shown: Iterable[Shown]) -> Line:
    """`✋ 2 pending · 🔧 1 running`."""
    counted = Counter(words.standing(one.record, one.held) for one in shown)
    rows: list[Part] = []
    for (mark, word), count in counted.items():
        said = {"passes now": "pass now", "waits": "wait"}.get(word, word) if count > 1 else word
        rows += [" · " if rows else "", f"{mark} ", bold(f"{count} {said}")]
    return tuple(rows)


def _head(records: Sequence[Record]) -> str:
    """The headline whole, or with the number of hosts in their place: half a host name would be another host."""
    line = headline(records)
    if size(plain(line)) <= blocks.HEADER:
        return line
    mark, begins = gist(records)
    return f"{mark} {begins} {words.title(records[0].action)} · {len(records)} hosts · {records[0].action.risk}"


def _asked(records: Sequence[Record], group: str) -> list[Block]:
    """Who is to decide until when: the one line that calls somebody."""
    pending = [record for record in records if record.state is State.PENDING]
    if not pending:
        return []
    if not any(record.terms.approvers for record in pending):
        return [blocks.section(parts.asked(pending[0], ""))]
    by = min(record.decide_by for record in pending)
    votes = {record.terms.quorum for record in pending}
    each = f"{len(pending)} action{'s' if len(pending) > 1 else ''}" + (
        f", {votes.pop()} approvals each" if votes not in ({1}, set()) else ""
    )
    return [blocks.section((*parts.mentioned(group), "please decide until ", moment(by), f" ({utc(by)}): ", bold(each)))]


def _command(records: Sequence[Record]) -> list[Block]:
    """What runs on each host, once; nothing where it is not the same for all of them."""
    commands = {approval.command(record.action) for record in records}
    return [blocks.verbatim(commands.pop())] if len(commands) == 1 else []


def _what(shown: Sequence[Shown]) -> Block:
    """Where, whom it disturbs, and where they stand as soon as they differ."""
    actions = [one.record.action for one in shown]
    hosts = words.folded([action.target for action in actions])
    named: tuple[Part, ...] = (": ", exact_code(hosts)) if len(hosts) <= HOSTS else (", each named below",)
    via = {action.via for action in actions if action.via != action.target}
    runs: tuple[Part, ...] = (" · runs via ", exact_code(via.pop())) if len(via) == 1 else ()
    return blocks.section(
        (bold("On"), f" {len(actions)} hosts", *named, *runs),
        (bold(exact(actions[0].risk)), f" on each: {words.blast(actions[0])}"),
        *words.impact(next((one.record for one in shown if one.record.state is State.PENDING), shown[0].record)),
        *([tally(shown)] if len({words.standing(one.record, one.held) for one in shown}) > 1 else []),
    )


def _too_many(records: Sequence[Record], brakes: Brakes) -> list[Block]:
    """What the ledger will not let run, said before anybody presses "Approve all". What ran already counts too."""
    coming = [record for record in records if record.terms.changes and record.state not in _UNTOUCHED and not words.is_refused(record)]
    if not any(record.state in OPEN for record in coming):
        return []
    terms, said = coming[0].terms, list[Line]()
    if len(coming) > (window := brakes.window_of(terms.group_size)):
        trips = f"More than {window} hosts of {exact(terms.group) if terms.group else 'a group'} changed in {brakes.window_seconds // 60} min trip its breaker."
        said.append(("⚠ ", bold(trips), " The next one does not start, and nothing else there either until an approver resets it."))
    if len(coming) > (most := brakes.blast_hosts):
        within = f"One incident may change {most} hosts in {brakes.blast_seconds // 60} min."
        said.append(("⚠ ", bold(within), " The others wait, expire and are asked again."))
    return [blocks.section(*said)] if said else []


def _must_hold(shown: Sequence[Shown]) -> list[Block]:
    """The preconditions that the rows count, by name."""
    waiting = [one for one in shown if one.record.state in OPEN]
    if not waiting:
        return []
    seen = dict.fromkeys(condition.says for one in waiting for condition in one.seen)
    said = seen or dict.fromkeys(condition.says for one in waiting for condition in one.record.action.conditions)
    said = dict.fromkeys(filter(None, (words.fault(one.record.action) for one in waiting))) | said
    if not said:
        return []
    when = next((f" (dry run at {utc(one.seen_at)})" for one in waiting if one.seen_at), "")
    hold = {condition.says for condition in waiting[0].seen} if all(map(approval_row.all_hold, waiting)) else set()
    again = "Read again on each host just before it starts; where one does not hold, nothing runs there."
    rows = ((f"{'✓' if says in hold else '•'} {says}",) for says in said)
    return [blocks.short((bold("Must hold on each host"), when), *rows, (again,), room=CONDITIONS)]


def _about(records: Sequence[Record], first: Shown, brakes: Brakes) -> Block:
    """Proof, undo, who asked for it, and what keeps so many from being changed at once."""
    action = records[0].action
    asked_by = sorted({parts.named(who, first.names) for record in records for who in requesters_of(record.action)})
    asked = ", ".join(asked_by) + ", who therefore cannot approve it" if asked_by else "RackMedic, from what it found"
    return blocks.context(
        (
            bold("Proof"),
            f": {words.proof(action)}"[:PROOF],
            " · ",
            bold("undo"),
            f": {words.undo(action, each=len(records) > 1)}"[:PROOF],
            " · ",
            bold("asked for by"),
            f": {asked}",
        ),
        *_brakes(records, brakes),
    )


def _brakes(records: Sequence[Record], brakes: Brakes) -> list[Line]:
    """Why not all of them start at the same moment."""
    coming = [record for record in records if record.state in OPEN and record.terms.changes]
    if len(coming) < 2:
        return []
    terms = coming[0].terms
    at_once = brakes.at_once_of(terms.group_size)
    one = f"{at_once} host{'s' if at_once > 1 else ''} of "
    late = f" at once; the others wait and say why. One that has not started {terms.start_seconds // 60} min after its approval expires."
    return [(bold("brakes"), ": ", one, code(terms.group) if terms.group else "the group", late)]


def _buttons(records: Sequence[Record]) -> list[Block]:
    """About all of them: only what still waits can be approved together."""
    pending = [record for record in records if record.state is State.PENDING and record.terms.approvers]
    all_of = [_approve_all(pending)] if len(pending) > 1 else []
    return [blocks.actions(*all_of, blocks.button("Show all", SHOW_ALL, approval.carry_each(records)))]


def _approve_all(pending: Sequence[Record]) -> Block:
    sure = blocks.confirm(
        clip(f"{words.title(pending[0].action)} on {len(pending)} hosts?", 100), _told(pending), f"Approve {len(pending)}", "Not now"
    )
    return blocks.button(f"Approve all {len(pending)}", APPROVE_ALL, approval.carry_each(pending), style="primary", ask=sure)


def _told(pending: Sequence[Record]) -> str:
    """Slack's dialog before the votes: every host whole, and the command where it is the same and fits."""
    hosts = [record.action.target for record in pending]
    commands = {approval.command(record.action) for record in pending}
    same = f" {exact(commands.pop())}" if len(commands) == 1 else " each command as its row shows it."
    votes = f"One vote for each of {len(hosts)} actions; each runs once and is proved by itself."
    for what in (same, " each command as its row shows it."):
        for names in (", ".join(hosts), words.folded(hosts)):
            told = f"On {exact(names)}:{what}\n{votes}"
            if size(plain(told)) <= approval.CONFIRM:
                return told
    return f"The {len(hosts)} hosts are too long for this dialog; read them on the card. {votes}"


def _too_large(records: Sequence[Record]) -> Card:
    """Nobody approves what cannot be read whole."""
    head = "🚫 Too large to approve together"
    said = ("Hosts and commands must be readable whole on this card, and they do not fit. Nothing runs; say `stop` to take them back.",)
    return blocks.card(head, [blocks.header(head), blocks.section(said), blocks.context(*((record.approval,) for record in records))])
