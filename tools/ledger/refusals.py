"""What the ledger refuses. Each `message` is shown to people."""

from typing import ClassVar


class Refused(Exception):
    """The ledger changed nothing. The text, by default the class's `message`, says why and what can be done."""

    message: ClassVar[str]

    def __init__(self, text: str = "") -> None:
        super().__init__(text or self.message)


class NotFound(Refused):
    message = "There is no such approval."


class DuplicateAction(Refused):
    message = "The same action is already waiting for approval or running on that target; use that one."

    def __init__(self, approval: str) -> None:
        super().__init__(f"{self.message} ({approval})")
        self.approval = approval


class WrongDigest(Refused):
    message = "This card shows a different action than the one that is waiting; use the newest card."


class NotAnApprover(Refused):
    message = "You are not among the approvers of this action."


class OwnRequest(Refused):
    message = "You requested or edited this action, so another approver must approve it."


class AlreadyVoted(Refused):
    message = "Your vote on this action already counts."


class TooLate(Refused):
    message = "The time to approve or start this action is over; press Ask again for a new card."


class NotOpen(Refused):
    message = "This action is already decided; nothing was changed."


class BadTerms(Refused):
    message = "The request is malformed; nothing was proposed."


class ReplayedClick(Refused):
    message = "This click was received before."


class TamperedRecord(Refused):
    message = "A stored record lacks our valid signature, so nothing runs from it. Check the Redis behind RackMedic."


class SignedWithOldKey(Refused):
    message = "This was signed before the ledger's key changed, so it cannot be approved or started; it is proposed again."


class KeyChanging(Refused):
    message = "The ledger's key is being changed: nothing can be approved or started until `rackmedic ledger rotate` has run."


class KillSwitchOn(Refused):
    message = "The kill switch is on: no remedy starts until an approver resumes."


class TargetBusy(Refused):
    message = "Another action holds this target; it must end or be reconciled first."


class BlastRadiusExceeded(Refused):
    message = "This incident has already changed as many hosts as one incident may."


class FleetLimitExceeded(Refused):
    message = "Too many hosts of this group are being changed at once; try again when one is done."


class BreakerOpen(Refused):
    message = "The breaker of this group is open: too many hosts were changed in a short time. An approver resets it after checking them."


class VersionChanged(Refused):
    message = "Policy or catalogue changed since the card was shown; the action is superseded and will be proposed again."


class NoQuorum(Refused):
    message = "Too few approvals still count."


class NonDurableStore(Refused):
    message = "This Redis may lose acknowledged writes, so no remedy runs."


class LostClaim(Refused):
    message = "Another worker holds this action now; this one stops and changes nothing."


class StoreDown(Refused):
    message = "The ledger's Redis does not answer, so nothing can be approved or started; the card will show what was received."


class ClockBehind(Refused):
    message = "This machine's clock is far behind the ledger's, so deadlines cannot be trusted. Fix its time, or, if the ledger's clock ran ahead, run `rackmedic resume --clock`."


class Contention(Refused):
    message = "Too many decisions at once; try again."
