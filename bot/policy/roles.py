"""Who may do what: one table of everything that people can say, press, fill in or type, and the roles that may. Pure.

Roles come from where somebody is and who they are: whoever speaks in a customer's channel is a customer there, a full member of our workspace
in an operators' channel is an operator, approvers are those whom the channel's user group and the policy's sets name; admins and knowledge
editors are named by the policy file. A site may take acts away from roles (`only`), and never gives a role what it has not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from bot.policy.channels import NotAllowed
from graph.conversation.intents import Intent
from kb.shapes import StrictModel


class PersonRole(StrEnum):
    """What somebody is, in one place. One person may be several."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    KNOWLEDGE_EDITOR = "knowledge_editor"


MEANS: Final[Mapping[PersonRole, str]] = {
    PersonRole.CUSTOMER: "whoever speaks in a customer's channel, of whichever workspace; also one of your own people, while they speak there",
    PersonRole.OPERATOR: "a full member of your workspace in an operators' channel",
    PersonRole.APPROVER: "whom the channel's user group, `RACKMEDIC_APPROVERS` or a set of the policy names",
    PersonRole.ADMIN: "whom the policy names: they may also let repairs go on after a stop",
    PersonRole.KNOWLEDGE_EDITOR: "whom the policy names: they decide about lessons, as approvers and admins do; `only` may keep that to them",
}


@dataclass(frozen=True, slots=True)
class Act:
    """One row. `fixed`: no file changes who may. `by_request`: of the approvers only those whom the action's own request names."""

    who: frozenset[PersonRole]
    does: str
    fixed: bool = False
    by_request: bool = False


INSIDE: Final = frozenset(PersonRole) - {PersonRole.CUSTOMER}
BOTH: Final = frozenset(PersonRole)
THEIRS: Final = frozenset({PersonRole.CUSTOMER})
APPROVES: Final = frozenset({PersonRole.APPROVER})
BRAKES: Final = frozenset({PersonRole.APPROVER, PersonRole.ADMIN})
TEACHES: Final = frozenset({PersonRole.APPROVER, PersonRole.ADMIN, PersonRole.KNOWLEDGE_EDITOR})
_OF_CUSTOMERS: Final = frozenset(
    {
        *(Intent.NEW_FACTS, Intent.RECHECK, Intent.STILL_BROKEN, Intent.REOPEN, Intent.FIXED, Intent.CLOSE),
        *(Intent.HAND_OFF, Intent.STATUS, Intent.WHAT_NOW, Intent.SUMMARY, Intent.REPORT, Intent.SAFE_TO, Intent.WHO_IS_ON_IT),
        *(Intent.EXPLAIN, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.COMPARE, Intent.HELP, Intent.META),
    }
)
# fmt: off
_REST: Final[Mapping[str, Act]] = {
    "button.diagnosis.hand_off":       Act(INSIDE,   "hand the incident to people"),
    "button.diagnosis.recheck":        Act(INSIDE,   "have it looked at again"),
    "button.diagnosis.details":        Act(INSIDE,   "see everything that was read"),
    "button.feedback.vote":         Act(INSIDE,   "say whether a diagnosis helped"),
    "button.more.menu":             Act(INSIDE,   "open the forms below"),
    "button.question.meant":        Act(INSIDE,   "answer a question"),
    "button.ticket.take":           Act(INSIDE,   "take a ticket"),
    "button.ticket.wait":           Act(INSIDE,   "say that a ticket waits for others"),
    "button.ticket.close":          Act(INSIDE,   "open the form that closes an incident"),
    "button.ticket.report":         Act(INSIDE,   "have an incident written down as a file in its thread"),
    "button.held.ask_return":       Act(INSIDE,   "ask to return a node that is held"),
    "button.approval.approve":      Act(APPROVES, "approve an action", fixed=True, by_request=True),
    "button.approval.approve_all":  Act(APPROVES, "approve several, each counted by itself", fixed=True, by_request=True),
    "button.approval.reject":       Act(APPROVES, "deny an action, with a reason", fixed=True, by_request=True),
    "button.approval.ran":          Act(APPROVES, "say that an action in doubt ran", fixed=True, by_request=True),
    "button.approval.not_ran":      Act(APPROVES, "say that it did not", fixed=True, by_request=True),
    "button.approval.let_go":       Act(APPROVES, "let the next wave be put up though one did not pass", fixed=True, by_request=True),
    "button.approval.edit":         Act(INSIDE,   "propose other arguments; whoever does may not approve them"),
    "button.approval.revoke":       Act(INSIDE,   "take back what has not begun"),
    "button.approval.ask_again":    Act(INSIDE,   "have an action proposed once more"),
    "button.approval.show_all":     Act(INSIDE,   "read every command of a batch"),
    "button.customer.tell":         Act(INSIDE,   "open the form that tells the customer something"),
    "button.share.let_in":          Act(INSIDE,   "let a customer's report begin at once that waits for their share"),
    "button.customer.broken":       Act(THEIRS,   "say that it is still broken", fixed=True),
    "button.customer.works":        Act(THEIRS,   "say that it works again", fixed=True),
    "button.customer.person":       Act(THEIRS,   "ask for a person", fixed=True),
    "button.customer.withdraw":     Act(THEIRS,   "take a report back", fixed=True),
    "button.provider.show":         Act(INSIDE,   "see what would leave for the provider"),
    "button.provider.send":         Act(INSIDE,   "send the provider what was shown"),
    "button.provider.back":         Act(INSIDE,   "leave it unsent"),
    "button.tracker.open":          Act(INSIDE,   "see what would leave for a tracker"),
    "button.tracker.choose":        Act(INSIDE,   "see what would leave for one of several trackers"),
    "button.lesson.accept":         Act(TEACHES,  "have a lesson used from now on"),
    "button.lesson.edit":           Act(TEACHES,  "open the form that changes the draft of a lesson"),
    "button.lesson.refuse":         Act(TEACHES,  "have a lesson never used"),
    "button.lesson.restore":        Act(TEACHES,  "have a retired lesson used again"),
    "form.lesson.submit":           Act(TEACHES,  "change the draft of a lesson"),
    "form.close_modal.submit":      Act(INSIDE,   "close an incident with its cause"),
    "form.feedback.submit":         Act(INSIDE,   "say what was wrong with a diagnosis"),
    "form.more.assign":             Act(INSIDE,   "note who is on it"),
    "form.more.correct":            Act(INSIDE,   "note what it really was"),
    "form.tracker.send":            Act(INSIDE,   "open the ticket in a tracker that was shown"),
    "form.reject_modal.submit":     Act(APPROVES, "deny an action, with a reason", fixed=True, by_request=True),
    "form.edit_modal.submit":       Act(INSIDE,   "propose other arguments"),
    "form.customer_tell":           Act(INSIDE,   "write something to the customer, and see it as they will read it"),
    "form.customer_tell_send":      Act(INSIDE,   "send it to them"),
    "command.help":                 Act(INSIDE,   "the list of what can be said"),
    "command.status":               Act(INSIDE,   "what is open, and the brakes"),
    "command.stop":                 Act(INSIDE,   "stop all repairs", fixed=True),
    "command.resume":               Act(BRAKES,   "let repairs go on, or reset a group's breaker"),
    "shortcut.diagnose_this":            Act(INSIDE,   "begin a diagnosis of a message"),
}
# fmt: on
ACTS: Final[Mapping[str, Act]] = {
    **{f"intent.{intent}": Act(BOTH if intent in _OF_CUSTOMERS else INSIDE, f"say it: {intent.replace('_', ' ')}") for intent in Intent},
    **_REST,
}
"""Everything that somebody can do, by its id; a test holds that it is all."""


class NamedPeople(StrictModel):
    """People by their Slack user ids and user groups."""

    users: tuple[Annotated[str, Field(pattern=r"^[UW][A-Z0-9]+$")], ...] = ()
    groups: tuple[Annotated[str, Field(pattern=r"^S[A-Z0-9]+$")], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.users or self.groups)


class RoleTable(StrictModel):
    """What a site says of roles."""

    admin: NamedPeople = NamedPeople()
    knowledge_editor: NamedPeople = NamedPeople()
    only: Mapping[str, tuple[PersonRole, ...]] = Field(default_factory=dict)
    """Act → the roles that keep it."""

    @property
    def named(self) -> tuple[tuple[PersonRole, NamedPeople], ...]:
        """The roles that a file gives, and to whom."""
        return (PersonRole.ADMIN, self.admin), (PersonRole.KNOWLEDGE_EDITOR, self.knowledge_editor)

    def who(self, act: str) -> frozenset[PersonRole]:
        """The roles that may. KeyError for what is no act."""
        kept = self.only.get(act)
        return ACTS[act].who if kept is None else ACTS[act].who & frozenset(kept)

    def problems(self) -> list[tuple[str, str]]:
        """(act, what is wrong) of each row of `only` that cannot stand."""
        return [(act, why) for act, roles in self.only.items() if (why := self._problem(act, frozenset(roles)))]

    def _problem(self, act: str, roles: frozenset[PersonRole]) -> str:
        if act not in ACTS:
            return f"{act!r} is no act; docs/roles.md lists them"
        if ACTS[act].fixed:
            return f"who may {ACTS[act].does} cannot be changed"
        if wider := sorted(roles - ACTS[act].who):
            return f"{', '.join(wider)} may not {ACTS[act].does} at all; a file takes away and never gives"
        empty = {role for role, named in self.named if not named}
        return "nobody would be left who may; name them under admin or knowledge_editor" if not roles - empty else ""


def require(table: RoleTable, act: str, roles: frozenset[PersonRole]) -> None:
    """Refuses whoever is none of those who may."""
    who = table.who(act)
    if not who & roles:
        raise NotAllowed(f"Only {' and '.join(f'{name}s' for name in sorted(role.replace('_', ' ') for role in who))} may do that here.")
