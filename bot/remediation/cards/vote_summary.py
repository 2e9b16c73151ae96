"""The voter's summary after "Approve all": how many votes counted, and why others did not."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bot.cards import blocks
from bot.cards.blocks import Card
from bot.cards.text import Line, Part, exact_code
from tools.ledger import refusals
from tools.ledger.record import VoteResult
from tools.ledger.refusals import Refused
from tools.ledger.states import State

MAX_LISTED_VOTES = 20
REFUSAL_WORDS: Mapping[type[Refused], str] = {
    refusals.OwnRequest: "requested by you",
    refusals.AlreadyVoted: "you had approved before",
    refusals.TooLate: "expired",
    refusals.WrongDigest: "changed since",
    refusals.NotAnApprover: "not yours to approve",
    refusals.ReplayedClick: "received before",
    refusals.NotFound: "gone",
    refusals.TamperedRecord: "not trusted",
    refusals.StoreDown: "not noted",
}


def describe_vote(vote: VoteResult) -> str:
    if vote.refusal is None:
        return "approved" if vote.record and vote.record.state is not State.PENDING else "counted, more approvers needed"
    if isinstance(vote.refusal, refusals.NotOpen) and vote.record is not None:
        return "expired" if vote.record.state is State.EXPIRED else f"already {vote.record.state}"
    return next((words for kind, words in REFUSAL_WORDS.items() if isinstance(vote.refusal, kind)), "not counted")


def render_vote_summary(votes: Sequence[VoteResult]) -> Card:
    """Render `6 approved, 1 expired, 1 requested by you`, then the votes that did not count."""
    head = ", ".join(
        f"{count} {word}" for word, count in Counter(map(describe_vote, sorted(votes, key=lambda vote: vote.refusal is not None))).items()
    )
    bad = [vote for vote in votes if vote.refusal is not None]
    lines: list[Line] = [(_render_target(vote), f": {vote.refusal}") for vote in bad[:MAX_LISTED_VOTES]]
    lines += [(f"… and {len(bad) - MAX_LISTED_VOTES} more",)] if len(bad) > MAX_LISTED_VOTES else []
    return blocks.build_card(head, [blocks.section((f"{'🟡' if len(bad) < len(votes) else '🚫'} {head}.",), *lines)])


def _render_target(vote: VoteResult) -> Part:
    return exact_code(vote.record.action.target if vote.record else vote.approval)
