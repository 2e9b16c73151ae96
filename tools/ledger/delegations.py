"""An approver's right in another one's hands for some time: what is kept of it, signed, and what of it counts now.

It is one right all the same: what the two of them say is one voice, and what the delegator asked for the delegate does not approve
(`tools.ledger.record.approving`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from kb.redact import redact
from tools.ledger.record import BadTerms, Tampered
from tools.ledger.seal import Seal

LONGEST = timedelta(days=31)
"""Whatever a policy says; nobody is away for longer without somebody taking their place in the group."""
MOST_WORDS = 200
_PERSON = re.compile(r"[^\s:,]+:[^\s:,]+")


@dataclass(frozen=True, slots=True)
class Delegation:
    """`by` lets `to` use their right until then; both are `TEAM:USER`, the time is ISO 8601."""

    by: str
    to: str
    until: str
    why: str = ""

    def canonical(self) -> str:
        """One line of JSON: what is signed."""
        return json.dumps(asdict(self) | {"why": redact(self.why)[:MOST_WORDS]}, sort_keys=True, separators=(",", ":"))

    @property
    def ends(self) -> datetime:
        """When it is over. ValueError where that is no time with a zone."""
        at = datetime.fromisoformat(self.until)
        if at.tzinfo is None:
            raise ValueError(f"{self.until!r} has no time zone")
        return at


def check_delegation(given: Delegation, now: datetime) -> None:
    """BadTerms unless it says who and until when, and that is soon enough."""
    problems = [f"{who!r} must be TEAM:USER" for who in (given.by, given.to) if not _PERSON.fullmatch(who)]
    if given.by == given.to:
        problems.append("nobody stands for themselves")
    if given.by.partition(":")[0] != given.to.partition(":")[0]:
        problems.append("both must be of one workspace")
    if not now < given.ends <= now + LONGEST:
        problems.append(f"it must end within {LONGEST.days} days from now")
    if problems:
        raise BadTerms(f"{BadTerms.__doc__} {'; '.join(problems)}")


def read_delegations(rows: Mapping[str, str], seal: Seal, now: datetime) -> tuple[Delegation, ...]:
    """Those that count now. One that we did not sign so with the present key, or that was filed under another delegator, gives nobody anything."""
    found = [_read(by, row, seal) for by, row in sorted(rows.items())]
    return tuple(one for one in found if one is not None and now < one.ends)


def _read(by: str, row: str, seal: Seal) -> Delegation | None:
    mac, _, text = row.partition(" ")
    try:
        if seal.check(mac, "delegation", text) != seal.current:
            return None
        given = Delegation(**json.loads(text))
        given.ends  # noqa: B018  # a time that is none is no delegation
    except (Tampered, ValueError, TypeError):
        return None
    return given if given.by == by else None
