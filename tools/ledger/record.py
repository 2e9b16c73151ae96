"""Record of one action, and the ledger's refusals, whose docstrings are shown to people."""

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
    """The same action is already waiting for approval or running on that target; use that one."""

    def __init__(self, approval: str) -> None:
        super().__init__(f"{DuplicateAction.__doc__} ({approval})")
        self.approval = approval


class WrongDigest(Refused):
    """This card shows a different action than the one that is waiting; use the newest card."""


class NotAnApprover(Refused):
    """You are not among the approvers of this action."""


class OwnRequest(Refused):
    """You requested or edited this action, so another approver must approve it."""


class AlreadyVoted(Refused):
    """Your vote on this action already counts."""


class TooLate(Refused):
    """The time to approve or start this action is over; press Ask again for a new card."""


class NotOpen(Refused):
    """This action is already decided; nothing was changed."""


class BadTerms(Refused):
    """The request is malformed; nothing was proposed."""


class ReplayedClick(Refused):
    """This click was received before."""


class TamperedRecord(Refused):
    """A stored record lacks our valid signature, so nothing runs from it. Check the Redis behind RackMedic."""


class OldKey(Refused):
    """This was signed before the ledger's key changed, so it cannot be approved or started; it is proposed again."""


class KeyChanging(Refused):
    """The ledger's key is being changed: nothing can be approved or started until `rackmedic ledger rotate` has run."""


class KillSwitchOn(Refused):
    """The kill switch is on: no remedy starts until an approver resumes."""


class TargetBusy(Refused):
    """Another action holds this target; it must end or be reconciled first."""


class BlastRadius(Refused):
    """This incident has already changed as many hosts as one incident may."""


class FleetLimit(Refused):
    """Too many hosts of this group are being changed at once; try again when one is done."""


class BreakerOpen(Refused):
    """The breaker of this group is open: too many hosts were changed in a short time. An approver resets it after checking them."""


class VersionChanged(Refused):
    """Policy or catalogue changed since the card was shown; the action is superseded and will be proposed again."""


class NoQuorum(Refused):
    """Too few approvals still count."""


class NonDurableStore(Refused):
    """This Redis may lose acknowledged writes, so no remedy runs."""


class LostClaim(Refused):
    """Another worker holds this action now; this one stops and changes nothing."""


class StoreDown(Refused):
    """The ledger's Redis does not answer, so nothing can be approved or started; the card will show what was received."""


class ClockSkew(Refused):
    """This machine's clock is far behind the ledger's, so deadlines cannot be trusted. Fix its time, or, if the ledger's clock ran ahead, run `rackmedic resume --clock`."""


class Contention(Refused):
    """Too many decisions at once; try again."""


@dataclass(frozen=True, slots=True)
class ApprovalTerms:
    """Who may decide (`TEAM:USER`; empty admits no approver) and deadlines in seconds, frozen into the request."""

    approvers: frozenset[str]
    quorum: int
    group: str = ""
    group_size: int = 1
    decide_seconds: int = 900
    start_seconds: int = 300
    # remedies on the same target that this one makes unnecessary (a reboot covers a GPU reset)
    covers: tuple[str, ...] = ()
    # False for an exclusive check: it locks its targets and obeys the kill switch, but uses no blast radius
    changes: bool = True

    turn: int = 0  # the incident's turn; the action is withdrawn once that turn ends without it
    sets: tuple[str, ...] = ()  # the policy's approver sets behind `approvers`; empty if the channel's own approve

    def to_canonical_json(self) -> str:
        """Return the JSON line that is signed with the action."""
        return json.dumps(asdict(self) | {"approvers": sorted(self.approvers)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_canonical_json(cls, text: str) -> "ApprovalTerms":
        """Parse it back. TypeError for an unknown field: terms are never read in part."""
        row = json.loads(text)
        lists = {"sets": tuple(row["sets"]), "covers": tuple(row["covers"])}
        return cls(**{**row, **lists, "approvers": frozenset(row["approvers"])})


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's verdict on one digest. `delivery` is the click's id and exposes a replay."""

    approval: str
    digest: str
    voter: str
    verdict: Literal["approve", "deny"]
    at: str
    delivery: str
    reason: str = ""

    def to_canonical_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action as stored, signatures checked."""

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
    ended_by: str = ""  # for people: a person, RackMedic, or the covering action
    replaced_by: str = ""  # the edited action that replaced it
    covered_by: str = ""  # the action whose start made it unnecessary
    # signed or voted on with an earlier key: readable, can be ended, never decided or started
    old_key: bool = field(default=False, compare=False)
    mac: str = field(default="", repr=False, compare=False)
    # votes as stored, for the script's comparison with the verified bytes
    raw_votes: str = field(default="", repr=False, compare=False)

    @property
    def approval(self) -> str:
        return self.action.approval

    @property
    def digest(self) -> str:
        return self.action.digest

    @property
    def approvals(self) -> int:
        return len({vote.voter for vote in self.votes if vote.verdict == "approve"})

    def get_due_time(self) -> datetime | None:
        """Return the next deadline in this state, or None."""
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
    """Result of one vote of a multi-vote click. `seen` is the action, if readable."""

    approval: str
    seen: ActionRecord | None = None
    no: Refused | None = None


_NAME_PATTERN = re.compile(r"[^\s,]+")
_PERSON_PATTERN = re.compile(r"[^\s:,]+:[^\s:,]+")


def list_targets(action: Action) -> tuple[str, ...]:
    """Return the hosts locked while it runs (`a,b,c`)."""
    return tuple(dict.fromkeys(action.target.split(",")))


def has_same_effect(one: Action, other: Action) -> bool:
    """Compare remedy, target and arguments, regardless of incident and approval id."""
    return (one.remedy, one.target, _get_effect_args(one)) == (other.remedy, other.target, _get_effect_args(other))


def _get_effect_args(action: Action) -> dict[str, str]:
    return {name: value for name, value in action.args.items() if name != "approval"}


def list_requesters(action: Action) -> frozenset[str]:
    """Return requesters and editors. None of them may approve."""
    return frozenset(filter(None, action.requested_by.split(",")))


def check_terms(action: Action, terms: ApprovalTerms) -> None:
    """Raise BadTerms unless the request is complete. A person without a team would match no approver."""
    problems = [
        f"{person!r} must be TEAM:USER"
        for person in sorted(terms.approvers | list_requesters(action))
        if not _PERSON_PATTERN.fullmatch(person)
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
    """Return distinct, frozen and still authorised approvers of this digest who did not request it."""
    voters = {
        vote.voter
        for vote in votes
        if vote.verdict == "approve" and vote.digest == action.digest and vote.approval == action.approval and vote.voter in terms.approvers
    }
    voters -= list_requesters(action)
    return voters if authorised is None else voters & authorised


def is_digest(text: str) -> bool:
    """Return whether it is a hexadecimal SHA-256."""
    return bool(re.fullmatch(r"[0-9a-f]{64}", text))


def compute_digest(text: str) -> str:
    """Return the hexadecimal SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()
