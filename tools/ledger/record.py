"""What the ledger keeps of one action, and the refusals it answers with. Refusals' docstrings are what people are told."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal

from tools.action import Action
from tools.ledger.states import State

Outcome = Literal["", "passes_now", "unchanged", "worse", "cured", "recurred"]


class Refused(Exception):
    """The ledger changed nothing. The text says why and what can be done."""


class NotFound(Refused):
    """There is no such approval."""


class DuplicateAction(Refused):
    """The same is up for decision, or runs, on that target already; it goes by that one."""

    def __init__(self, approval: str) -> None:
        super().__init__(f"{DuplicateAction.__doc__} ({approval})")
        self.approval = approval


class WrongDigest(Refused):
    """The card shows another action than the one that is waiting; look for the newest card."""


class NotAnApprover(Refused):
    """You are not among the approvers of this action."""


class OwnRequest(Refused):
    """You asked for or edited this action, so somebody else must approve it."""


class AlreadyVoted(Refused):
    """Your vote on this action counts already."""


class TooLate(Refused):
    """The time to decide or to start is over; press Ask again for a fresh card."""


class NotOpen(Refused):
    """It was decided before; nothing was changed now."""


class BadTerms(Refused):
    """The request is not well-formed; nothing was put up for decision."""


class ReplayedClick(Refused):
    """This click was received before."""


class TamperedRecord(Refused):
    """A stored record does not carry our signature; nothing runs on it. Look at the Redis behind RackMedic."""


class OldKey(Refused):
    """This was signed before the ledger's key was changed, so nobody decides about it and it does not start; it is proposed anew."""


class KeyChanging(Refused):
    """The ledger's key is being changed: nothing is decided or started until `rackmedic ledger rotate` has run."""


class KillSwitchOn(Refused):
    """The kill switch is on: no remedy starts until somebody resumes."""


class TargetBusy(Refused):
    """Another action holds this target; it must end, or be reconciled, first."""


class BlastRadius(Refused):
    """This incident has already changed as many hosts as one incident may."""


class FleetLimit(Refused):
    """As many hosts of this group are being changed as may be at once; try again when one is done."""


class BreakerOpen(Refused):
    """The fleet breaker tripped: too many hosts of this group were changed in a short time. A human resets it after looking."""


class VersionChanged(Refused):
    """Policy or catalogue changed since the card was shown; the action is superseded and will be proposed anew."""


class NoQuorum(Refused):
    """Too few of the approvers' votes still count."""


class NonDurableStore(Refused):
    """This Redis may forget what it acknowledged, so no remedy runs on it."""


class LostClaim(Refused):
    """Somebody else holds this action now; whoever loses a claim stops and touches nothing."""


class StoreDown(Refused):
    """The Redis behind the ledger does not answer, so nothing can be decided or started; the card will show what was received."""


class ClockSkew(Refused):
    """This machine's clock is far behind the ledger's, so no deadline holds; mend its time, or, if the ledger's ran ahead, `rackmedic resume --clock`."""


class Contention(Refused):
    """Too many decisions at the same moment; try again."""


@dataclass(frozen=True, slots=True)
class ApprovalTerms:
    """Who may decide and until when, frozen into the request. `approvers` are `TEAM:USER`; an empty set means nobody."""

    approvers: frozenset[str]
    quorum: int
    group: str = ""
    group_size: int = 1
    decide_seconds: int = 900
    start_seconds: int = 300
    covers: tuple[str, ...] = ()
    """Remedies on the same target that this one makes needless (a reboot covers a GPU reset)."""
    changes: bool = True
    """False for what only looks (an exclusive check): it holds its targets and obeys the kill switch, but uses up no blast radius."""

    turn: int = 0
    """The turn of its incident that it is of: once that has ended without wanting it, it is taken back."""
    sets: tuple[str, ...] = ()
    """The approver sets of the policy that `approvers` came from; empty where the channel's own approve."""

    def to_canonical_json(self) -> str:
        """One line of JSON: what is signed together with the action."""
        return json.dumps(asdict(self) | {"approvers": sorted(self.approvers)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_canonical_json(cls, text: str) -> "ApprovalTerms":
        """The inverse of `canonical`. TypeError for a field that Terms do not have: nothing is decided by terms that are read in part."""
        row = json.loads(text)
        lists = {"sets": tuple(row["sets"]), "covers": tuple(row["covers"])}
        return cls(**{**row, **lists, "approvers": frozenset(row["approvers"])})


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's word on one digest. `delivery` is the click's own id: a replayed click has the same."""

    approval: str
    digest: str
    voter: str
    verdict: Literal["approve", "deny"]
    at: str
    delivery: str
    reason: str = ""

    def to_canonical_json(self) -> str:
        """One line of JSON: what is signed."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action as the ledger knows it, signatures checked."""

    action: Action
    terms: ApprovalTerms
    state: State
    votes: tuple[Vote, ...]
    proposed_at: datetime
    decide_by: datetime
    start_by: datetime | None = None
    worker: str = ""
    token: int = 0
    beat_until: datetime | None = None
    exit_status: int | None = None
    output: str = ""
    says: str = ""
    outcome: Outcome = ""
    ended_by: str = ""
    """Who ended it, for people to read: a person, RackMedic, or the action that covers it."""
    replaced_by: str = ""
    """The action that an edit put in its place."""
    covered_by: str = ""
    """The action whose start made it needless."""
    old_key: bool = field(default=False, compare=False)
    """Signed, or voted on, with an earlier key of the ledger: it can be read and ended, and is never decided or started."""
    mac: str = field(default="", repr=False, compare=False)
    raw_votes: str = field(default="", repr=False, compare=False)
    """The votes as stored: what a script compares with what was verified."""

    @property
    def approval(self) -> str:
        """The action's approval id."""
        return self.action.approval

    @property
    def digest(self) -> str:
        """The digest people voted on."""
        return self.action.digest

    @property
    def approvals(self) -> int:
        """How many distinct people approved."""
        return len({vote.voter for vote in self.votes if vote.verdict == "approve"})

    def get_due_time(self) -> datetime | None:
        """When somebody must look at it again, whatever happens."""
        match self.state:
            case State.PENDING:
                return self.decide_by
            case State.APPROVED:
                return self.start_by
            case State.EXECUTING:
                return self.beat_until
            case _:
                return None


@dataclass(frozen=True, slots=True)
class VoteResult:
    """One vote among several of one click: what the ledger made of it. `seen` is the action as far as it could be read."""

    approval: str
    seen: ActionRecord | None = None
    no: Refused | None = None


_NAME_PATTERN = re.compile(r"[^\s,]+")
_PERSON_PATTERN = re.compile(r"[^\s:,]+:[^\s:,]+")


def list_targets(action: Action) -> tuple[str, ...]:
    """The hosts an action holds while it runs: its target, or every host of a set (`a,b,c`)."""
    return tuple(dict.fromkeys(action.target.split(",")))


def has_same_effect(one: Action, other: Action) -> bool:
    """Whether two actions would do the same to the same target; whose they are and what they are called makes no difference."""
    return (one.remedy, one.target, _get_effect_args(one)) == (other.remedy, other.target, _get_effect_args(other))


def _get_effect_args(action: Action) -> dict[str, str]:
    return {name: value for name, value in action.args.items() if name != "approval"}


def list_requesters(action: Action) -> frozenset[str]:
    """Who asked for the action or edited it, as `TEAM:USER`, several separated by commas. None of them may approve it."""
    return frozenset(filter(None, action.requested_by.split(",")))


def check_terms(action: Action, terms: ApprovalTerms) -> None:
    """BadTerms unless the request says everything that the scripts rely on. A person without a team would match nobody."""
    problems = [
        f"{who!r} must be TEAM:USER" for who in sorted(terms.approvers | list_requesters(action)) if not _PERSON_PATTERN.fullmatch(who)
    ]
    problems += [f"{name!r} is no host name" for name in list_targets(action) if not _NAME_PATTERN.fullmatch(name)]
    numbers = {"quorum": terms.quorum, "group_size": terms.group_size, "decide_seconds": terms.decide_seconds}
    numbers["start_seconds"] = terms.start_seconds
    problems += [f"{name} is {value}, it must be at least 1" for name, value in numbers.items() if value < 1]
    if not re.fullmatch(r"\S+", action.approval):
        problems.append(f"{action.approval!r} is no approval id")
    if problems:
        raise BadTerms(f"{BadTerms.__doc__} {'; '.join(problems)}")


def find_approvers(votes: Sequence[Vote], terms: ApprovalTerms, action: Action, authorised: frozenset[str] | None = None) -> set[str]:
    """Distinct people who approved this digest, are among the frozen approvers, are still authorised, and did not ask for it."""
    counted = {
        vote.voter
        for vote in votes
        if vote.verdict == "approve" and vote.digest == action.digest and vote.approval == action.approval and vote.voter in terms.approvers
    }
    counted -= list_requesters(action)
    return counted if authorised is None else counted & authorised


def is_digest(text: str) -> bool:
    """Whether it is a SHA-256 in hexadecimal."""
    return bool(re.fullmatch(r"[0-9a-f]{64}", text))


def compute_digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
