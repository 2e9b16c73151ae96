"""Short thread messages about actions: an unknown outcome, or a reminder to decide."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bot.cards import blocks
from bot.cards.blocks import Card
from bot.cards.text import Line, Part, bold, exact_code, format_slack_date, format_utc_time
from bot.remediation.cards import action_text, card_parts, shared_card
from bot.remediation.cards.approval_card import ApprovalCardView
from tools.ledger import record
from tools.ledger.record import Refused, VoteResult
from tools.ledger.states import State


def render_outcome(view: ApprovalCardView, *, among_others: bool = False) -> Card:
    """Render how the action ended. `among_others`: use the words of its row on a shared card."""
    record = view.record
    mark, word = action_text.get_state_word(record)
    head = (
        f"{mark} {word.capitalize()}: {action_text.summarize_action(record.action)}"
        if among_others
        else action_text.format_headline(record)
    )
    return blocks.build_card(
        head,
        [
            blocks.section((bold(head),)),
            *card_parts.render_status(record, view.names, view.began, ""),
            *card_parts.render_output(view.tail),
            blocks.context((f"{record.approval} · digest {record.digest}",)),
        ],
    )


def render_reminder(view: ApprovalCardView) -> Card:
    record = view.record
    action_line = (
        bold(action_text.describe_action(record.action)),
        " on ",
        *action_text.render_place(record.action),
        " is still waiting above",
    )
    until = (
        ": ",
        bold(card_parts.format_approval_count(record)),
        ", decide by ",
        format_slack_date(record.decide_by),
        f" ({format_utc_time(record.decide_by)}).",
    )
    return blocks.build_card(
        f"⏳ Still waiting for approval: {action_text.format_headline(record)}",
        [blocks.section(("⏳ ", *card_parts.mention_approvers(view.group), *action_line, *until))],
    )


def render_shared_reminder(shown: Sequence[ApprovalCardView]) -> Card:
    """Render one reminder for all pending actions of a card."""
    waiting = [one.record for one in shown if one.record.state is State.PENDING]
    hosts, decide_by = (
        action_text.fold_hosts_exactly([record.action.target for record in waiting]),
        min(record.decide_by for record in waiting),
    )
    action_line: Line = (
        bold(action_text.get_action_title(waiting[0].action)),
        " on ",
        exact_code(hosts),
        f" {'is' if len(waiting) == 1 else 'are'} still waiting above: ",
    )
    until: Line = (
        bold(f"{len(waiting)} of {len(shown)} waiting for approval"),
        " until ",
        format_slack_date(decide_by),
        f" ({format_utc_time(decide_by)}).",
    )
    head = f"⏳ Still waiting for approval: {shared_card.format_headline(waiting)}"
    return blocks.build_card(head, [blocks.section(("⏳ ", *card_parts.mention_approvers(shown[0].group), *action_line, *until))])


# The voter's summary after "Approve all": how many votes counted, and why others did not.

MAX_LISTED_VOTES = 20
REFUSAL_WORDS: Mapping[type[Refused], str] = {
    record.OwnRequest: "requested by you",
    record.AlreadyVoted: "you had approved before",
    record.TooLate: "expired",
    record.WrongDigest: "changed since",
    record.NotAnApprover: "not yours to approve",
    record.ReplayedClick: "received before",
    record.NotFound: "gone",
    record.TamperedRecord: "not trusted",
    record.StoreDown: "not noted",
}


def describe_vote(vote: VoteResult) -> str:
    if vote.no is None:
        return "approved" if vote.seen and vote.seen.state is not State.PENDING else "counted, more approvers needed"
    if isinstance(vote.no, record.NotOpen) and vote.seen is not None:
        return "expired" if vote.seen.state is State.EXPIRED else f"already {vote.seen.state}"
    return next((words for kind, words in REFUSAL_WORDS.items() if isinstance(vote.no, kind)), "not counted")


def render_vote_summary(votes: Sequence[VoteResult]) -> Card:
    """Render `6 approved, 1 expired, 1 requested by you`, then the votes that did not count."""
    head = ", ".join(
        f"{count} {word}" for word, count in Counter(map(describe_vote, sorted(votes, key=lambda vote: vote.no is not None))).items()
    )
    bad = [vote for vote in votes if vote.no is not None]
    lines: list[Line] = [(_render_target(vote), f": {vote.no or type(vote.no).__doc__}") for vote in bad[:MAX_LISTED_VOTES]]
    lines += [(f"… and {len(bad) - MAX_LISTED_VOTES} more",)] if len(bad) > MAX_LISTED_VOTES else []
    return blocks.build_card(head, [blocks.section((f"{'🟡' if len(bad) < len(votes) else '🚫'} {head}.",), *lines)])


def _render_target(vote: VoteResult) -> Part:
    return exact_code(vote.seen.action.target if vote.seen else vote.approval)
