"""Signatures over stored records, and verified reading. A foreign row raises TamperedRecord.

A signature names its key, or none if it predates the first key change. Records of earlier keys stay readable, but only
the present key's are decided or started: a leaked earlier key cannot forge a runnable action.

Signed are request (action, terms, times), each vote, and approval with start deadline. State, token and heartbeat are
not: changing them gains nothing against the signed parts and the host's own record.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast, get_args

from tools.action import Action
from tools.ledger.record import ActionRecord, ApprovalTerms, Outcome, TamperedRecord, Vote
from tools.ledger.states import State

MIN_KEY_BYTES = 16


def compute_key_id(key: bytes) -> str:
    """Return the key's public id, which reveals nothing about it."""
    return hmac.new(key, b"the id of this ledger key", hashlib.sha256).hexdigest()[:8]


class Seal:
    """HMAC-SHA256 signer.

    `older` keys, newest first, only verify. Keys stay in Python: in Lua they would show in MONITOR.
    """

    def __init__(self, key: bytes, older: Sequence[bytes] = ()) -> None:
        keys = dict.fromkeys((key, *older))
        if min(map(len, keys)) < MIN_KEY_BYTES:
            raise ValueError(f"the ledger key must have at least {MIN_KEY_BYTES} bytes")
        self._keys = {compute_key_id(one): one for one in keys}
        self.current = compute_key_id(key)

    @property
    def ids(self) -> tuple[str, ...]:
        """The present key first."""
        return tuple(self._keys)

    def sign(self, *parts: str) -> str:
        """Sign parts and their lengths, so that parts cannot shift into each other."""
        mac = _compute_mac(self._keys[self.current], parts)
        return f"{self.current}.{mac}" if len(self._keys) > 1 else mac

    def find_signer(self, mac: str, *parts: str) -> str:
        """Return the id of the key that signed `parts`, or ""."""
        key_id, dot, bare = mac.rpartition(".")
        key_ids = [key_id] if dot else list(self._keys)
        return next((name for name in key_ids if name in self._keys and _is_same_mac(bare, _compute_mac(self._keys[name], parts))), "")

    def verify(self, mac: str, *parts: str) -> str:
        """Return the signing key's id. Raises TamperedRecord."""
        signer = self.find_signer(mac, *parts)
        if not signer:
            raise TamperedRecord(f"{TamperedRecord.__doc__}{self._explain_unknown_key(mac)}")
        return signer

    def _explain_unknown_key(self, mac: str) -> str:
        name = mac.rpartition(".")[0]
        strange = re.fullmatch(r"[0-9a-f]{8}", name) and name not in self._keys
        return f" It says that it was signed with the key {name}, which this process does not have: {RESTART_HINT}" if strange else ""

    def sign_request(self, action: str, terms: str, proposed_at: int, decide_by: int) -> str:
        return self.sign("request", action, terms, str(proposed_at), str(decide_by))

    def sign_approval(self, approval: str, digest: str, start_by: int) -> str:
        """Sign the start deadline of an approved action."""
        return self.sign("approved", approval, digest, str(start_by))

    def sign_vote(self, vote: Vote) -> str:
        """Return signature and JSON, as stored."""
        text = vote.to_canonical_json()
        return f"{self.sign('vote', text)} {text}"


RESTART_HINT = "where the ledger's key was changed, restart it with the new one."


def _compute_mac(key: bytes, parts: Sequence[str]) -> str:
    message = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _is_same_mac(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def parse_record(approval: str, row: Mapping[str, str], votes: Mapping[str, str], seal: Seal) -> ActionRecord:
    """Build a record, every signature checked. Raises TamperedRecord."""
    try:
        return _parse_record_fields(approval, row, votes, seal)
    except (KeyError, ValueError, TypeError) as error:
        raise TamperedRecord(f"{TamperedRecord.__doc__} ({approval} cannot be read: {error})") from error


def _parse_record_fields(approval: str, row: Mapping[str, str], votes: Mapping[str, str], seal: Seal) -> ActionRecord:
    signed = {seal.verify(row["mac"], "request", row["action"], row["request"], row["proposed_at"], row["decide_by"])}
    action = Action.from_canonical_json(row["action"])
    if action.digest != row["digest"] or action.approval != approval:
        raise TamperedRecord(TamperedRecord.__doc__)
    if row.get("start_by") or row["state"] == State.APPROVED:
        signed.add(seal.verify(row.get("approved", ""), "approved", approval, action.digest, row.get("start_by", "")))
    counted_votes, voters = parse_votes(votes, seal)
    signed |= voters
    proposed = cast(datetime, parse_time(row["proposed_at"]))
    if any(datetime.fromisoformat(vote.at) < proposed - timedelta(milliseconds=1) for vote in counted_votes if vote.approval == approval):
        raise TamperedRecord(f"{TamperedRecord.__doc__} ({approval} was voted on before it was proposed)")
    return ActionRecord(
        action=action,
        terms=ApprovalTerms.from_canonical_json(row["request"]),
        state=State(row["state"]),
        votes=counted_votes,
        proposed_at=proposed,
        decide_by=cast(datetime, parse_time(row["decide_by"])),
        start_by=parse_time(row.get("start_by")),
        worker=row.get("worker", ""),
        token=parse_digits(row.get("token") or "0"),
        beat_until=parse_time(row.get("beat_until")),
        exit_status=_parse_exit_status(row["exit_status"]) if row.get("exit_status") else None,
        output=row.get("output", ""),
        says=row.get("says", ""),
        outcome=_parse_outcome(row.get("outcome", "")),
        ended_by=row.get("ended_by", ""),
        replaced_by=row.get("replaced_by", ""),
        covered_by=row.get("covered_by", ""),
        old_key=signed != {seal.current},
        mac=row["mac"],
        raw_votes=join_votes(votes),
    )


def parse_votes(rows: Mapping[str, str], seal: Seal) -> tuple[tuple[Vote, ...], set[str]]:
    """Return votes and their signing keys. A vote filed under another voter raises TamperedRecord."""
    votes, signed = [], set[str]()
    for voter, row in sorted(rows.items()):
        mac, _, text = row.partition(" ")
        signed.add(seal.verify(mac, "vote", text))
        vote = Vote(**json.loads(text))
        if vote.voter != voter:
            raise TamperedRecord(TamperedRecord.__doc__)
        votes.append(vote)
    return tuple(votes), signed


def join_votes(rows: Mapping[str, str]) -> str:
    """Join votes by line for the scripts. Sorts here, because Lua sorts by the server's locale."""
    return "\n".join(f"{voter} {row}" for voter, row in sorted(rows.items()))


def to_milliseconds(at: datetime) -> int:
    """Convert to the stored form."""
    return round(at.timestamp() * 1000)


def parse_time(stored: str | None) -> datetime | None:
    """Parse stored milliseconds. Raises ValueError."""
    return datetime.fromtimestamp(parse_digits(stored) / 1000, UTC) if stored else None


def parse_digits(stored: str) -> int:
    """Parse at most 13 digits, the length of a time in milliseconds. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,13}", stored):
        raise ValueError(f"{stored[:40]!r} is no number of ours")
    return int(stored)


def _parse_exit_status(stored: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,4}", stored):
        raise ValueError(f"{stored[:40]!r} is no exit status")
    return int(stored)


def _parse_outcome(stored: str) -> Outcome:
    if stored not in get_args(Outcome):
        raise ValueError(f"{stored[:40]!r} is no outcome")
    return cast(Outcome, stored)
