"""What the ledger keeps of one action, and the refusals it answers with. Refusals' docstrings are what people are told."""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tools.action import Action
from tools.ledger.states import State

Outcome = Literal["", "passes_now", "unchanged", "worse", "cured", "recurred"]


class Refused(Exception):
    """The ledger changed nothing. The text says why and what can be done."""


class NotFound(Refused):
    """There is no such approval."""


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
    """The action is settled; nothing was changed."""


class Replayed(Refused):
    """This click was received before."""


class Tampered(Refused):
    """A stored record does not carry our signature; nothing runs on it. Look at the Redis behind RackMedic."""


class Stopped(Refused):
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


class Forgetful(Refused):
    """This Redis may forget what it acknowledged, so no remedy runs on it."""


class LostClaim(Refused):
    """Somebody else holds this action now; whoever loses a claim stops and touches nothing."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Who may decide and until when, frozen into the request. `approvers` are `TEAM:USER`; an empty set means nobody."""

    approvers: frozenset[str]
    quorum: int
    group: str = ""
    group_size: int = 1
    decide_seconds: int = 900
    start_seconds: int = 300
    covers: tuple[str, ...] = ()
    """Remedies on the same target that this one makes needless (a reboot covers a GPU reset)."""

    def canonical(self) -> str:
        """One line of JSON: what is signed together with the action."""
        row = asdict(self) | {"approvers": sorted(self.approvers)}
        return json.dumps(row, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_canonical(cls, text: str) -> "Terms":
        """The inverse of `canonical`."""
        row = json.loads(text)
        return cls(**{**row, "approvers": frozenset(row["approvers"]), "covers": tuple(row["covers"])})


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

    def canonical(self) -> str:
        """One line of JSON: what is signed."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Record:
    """One action as the ledger knows it, signatures checked."""

    action: Action
    terms: Terms
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
    raw: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    raw_votes: str = field(default="", repr=False, compare=False)

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
        """Distinct approving voters."""
        return len({vote.voter for vote in self.votes if vote.verdict == "approve"})

    def due(self) -> datetime | None:
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


class Seal:
    """HMAC-SHA256 with the key from settings. It lives in Python only: a key inside Lua would show in MONITOR."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("the ledger key must have at least 16 bytes")
        self._key = key

    def of(self, *parts: str) -> str:
        """The signature of these parts, in order; lengths are signed too, so parts cannot be shifted into each other."""
        message = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def check(self, mac: str, *parts: str) -> None:
        """Tampered unless `mac` signs `parts`."""
        if not hmac.compare_digest(mac.encode(), self.of(*parts).encode()):
            raise Tampered(Tampered.__doc__)


def read_votes(rows: Mapping[str, str], seal: Seal) -> tuple[Vote, ...]:
    """Votes as stored, `voter → mac canonical`, each checked; a vote filed under another voter's name is Tampered."""
    votes = []
    for voter, row in sorted(rows.items()):
        mac, _, text = row.partition(" ")
        seal.check(mac, "vote", text)
        vote = Vote(**json.loads(text))
        if vote.voter != voter:
            raise Tampered(Tampered.__doc__)
        votes.append(vote)
    return tuple(votes)


def votes_bytes(rows: Mapping[str, str]) -> str:
    """All votes in a fixed order: what the scripts compare with what Python verified."""
    return "\n".join(f"{voter} {row}" for voter, row in sorted(rows.items()))


def approving(votes: Sequence[Vote], terms: Terms, action: Action, authorised: frozenset[str] | None = None) -> set[str]:
    """Distinct voters whose approval counts: for this digest, among the frozen approvers, not the requester, still authorised."""
    counted = {
        vote.voter
        for vote in votes
        if vote.verdict == "approve" and vote.digest == action.digest and vote.approval == action.approval and vote.voter in terms.approvers
    }
    counted.discard(action.requested_by)
    return counted if authorised is None else counted & authorised


def moment(milliseconds: Any) -> datetime | None:
    """A stored time, None where there is none."""
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC) if milliseconds else None
