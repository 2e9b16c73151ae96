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
from tools.ledger.record import ActionRecord, ApprovalTerms, Outcome, Vote
from tools.ledger.refusals import TamperedRecord
from tools.ledger.states import State

MIN_KEY_BYTES = 16
RESTART_HINT = "where the ledger's key was changed, restart it with the new one."


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
        self._keys = {compute_key_id(candidate): candidate for candidate in keys}
        self.current = compute_key_id(key)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys, the present one first."""
        return tuple(self._keys)

    def sign(self, *parts: str) -> str:
        """Sign parts and their lengths, so that parts cannot shift into each other."""
        mac = _compute_mac(self._keys[self.current], parts)
        return f"{self.current}.{mac}" if len(self._keys) > 1 else mac

    def find_signer(self, mac: str, *parts: str) -> str:
        """Return the id of the key that signed `parts`, or ""."""
        key_id, dot, plain_mac = mac.rpartition(".")
        key_ids = [key_id] if dot else list(self._keys)
        for candidate in key_ids:
            if candidate in self._keys and _is_same_mac(plain_mac, _compute_mac(self._keys[candidate], parts)):
                return candidate
        return ""

    def verify(self, mac: str, *parts: str) -> str:
        """Return the signing key's id. Raises TamperedRecord if none of our keys signed."""
        signer = self.find_signer(mac, *parts)
        if not signer:
            raise TamperedRecord(f"{TamperedRecord.message}{self._explain_unknown_key(mac)}")
        return signer

    def _explain_unknown_key(self, mac: str) -> str:
        key_id = mac.rpartition(".")[0]
        if not re.fullmatch(r"[0-9a-f]{8}", key_id) or key_id in self._keys:
            return ""
        return f" It says that it was signed with the key {key_id}, which this process does not have: {RESTART_HINT}"

    def sign_request(self, action: str, terms: str, proposed_at: int, decide_by: int) -> str:
        return self.sign("request", action, terms, str(proposed_at), str(decide_by))

    def sign_approval(self, approval: str, digest: str, start_by: int) -> str:
        """Sign the start deadline of an approved action."""
        return self.sign("approved", approval, digest, str(start_by))

    def sign_vote(self, vote: Vote) -> str:
        """Return signature and JSON, as stored."""
        text = vote.to_canonical_json()
        return f"{self.sign('vote', text)} {text}"


def _compute_mac(key: bytes, parts: Sequence[str]) -> str:
    message = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def _is_same_mac(mac: str, other: str) -> bool:
    return hmac.compare_digest(mac.encode(), other.encode())


def parse_record(approval: str, fields: Mapping[str, str], votes: Mapping[str, str], seal: Seal) -> ActionRecord:
    """Build a record, every signature checked. Raises TamperedRecord if a field or signature is wrong."""
    try:
        return _parse_record_fields(approval, fields, votes, seal)
    except (KeyError, ValueError, TypeError) as error:
        raise TamperedRecord(f"{TamperedRecord.message} ({approval} cannot be read: {error})") from error


def _parse_record_fields(approval: str, fields: Mapping[str, str], votes: Mapping[str, str], seal: Seal) -> ActionRecord:
    signers = {seal.verify(fields["mac"], "request", fields["action"], fields["request"], fields["proposed_at"], fields["decide_by"])}
    action = Action.from_canonical_json(fields["action"])
    if action.digest != fields["digest"] or action.approval != approval:
        raise TamperedRecord
    if fields.get("start_by") or fields["state"] == State.APPROVED:
        signers.add(seal.verify(fields.get("approved", ""), "approved", approval, action.digest, fields.get("start_by", "")))
    counted_votes, vote_signers = parse_votes(votes, seal)
    signers |= vote_signers
    proposed = cast(datetime, parse_time(fields["proposed_at"]))
    if any(datetime.fromisoformat(vote.at) < proposed - timedelta(milliseconds=1) for vote in counted_votes if vote.approval == approval):
        raise TamperedRecord(f"{TamperedRecord.message} ({approval} was voted on before it was proposed)")
    return ActionRecord(
        action=action,
        terms=ApprovalTerms.from_canonical_json(fields["request"]),
        state=State(fields["state"]),
        votes=counted_votes,
        proposed_at=proposed,
        decide_by=cast(datetime, parse_time(fields["decide_by"])),
        start_by=parse_time(fields.get("start_by")),
        worker=fields.get("worker", ""),
        token=parse_digits(fields.get("token") or "0"),
        beat_until=parse_time(fields.get("beat_until")),
        exit_status=_parse_exit_status(fields["exit_status"]) if fields.get("exit_status") else None,
        output=fields.get("output", ""),
        says=fields.get("says", ""),
        outcome=_parse_outcome(fields.get("outcome", "")),
        ended_by=fields.get("ended_by", ""),
        replaced_by=fields.get("replaced_by", ""),
        covered_by=fields.get("covered_by", ""),
        old_key=signers != {seal.current},
        mac=fields["mac"],
        raw_votes=join_votes(votes),
    )


def parse_votes(stored_votes: Mapping[str, str], seal: Seal) -> tuple[tuple[Vote, ...], set[str]]:
    """Return votes and their signing keys. A vote filed under another voter raises TamperedRecord."""
    votes, signers = [], set[str]()
    for voter, signed_vote in sorted(stored_votes.items()):
        mac, _, text = signed_vote.partition(" ")
        signers.add(seal.verify(mac, "vote", text))
        vote = Vote(**json.loads(text))
        if vote.voter != voter:
            raise TamperedRecord
        votes.append(vote)
    return tuple(votes), signers


def join_votes(stored_votes: Mapping[str, str]) -> str:
    """Join votes by line for the scripts. Sorts here, because Lua sorts by the server's locale."""
    return "\n".join(f"{voter} {signed_vote}" for voter, signed_vote in sorted(stored_votes.items()))


def to_milliseconds(at: datetime) -> int:
    """Return the time as it is stored."""
    return round(at.timestamp() * 1000)


def parse_time(stored: str | None) -> datetime | None:
    """Parse stored milliseconds. Raises ValueError if they are not digits."""
    return datetime.fromtimestamp(parse_digits(stored) / 1000, UTC) if stored else None


def parse_digits(stored: str) -> int:
    """Parse at most 13 digits, the length of a time in milliseconds. Raises ValueError for anything else."""
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
