"""One table of everything that people can say, click, fill in or type, and the roles that may.

Roles follow from place and person: everyone who writes in a tenant's channel is a customer there; a full member of our
workspace in an operators' channel is an operator; the channel's user group and the policy's sets name approvers; the
policy file names admins and knowledge editors. A site may take acts away from roles (`only`), never add them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from bot.policy.channels import NotAllowed
from graph.dialogue.intents import Intent
from kb.schema import StrictModel


class PersonRole(StrEnum):
    """A person's role in one place; a person may have several."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    KNOWLEDGE_EDITOR = "knowledge_editor"


ROLE_DESCRIPTIONS: Final[Mapping[PersonRole, str]] = {
    PersonRole.CUSTOMER: "any person who writes in a customer's channel, from any workspace; also your own people while they write there",
    PersonRole.OPERATOR: "a full member of your workspace in an operators' channel",
    PersonRole.APPROVER: "whom the channel's user group, `RACKMEDIC_APPROVERS` or a set of the policy names",
    PersonRole.ADMIN: "whom the policy names: they may also let repairs go on after a stop",
    PersonRole.KNOWLEDGE_EDITOR: "whom the policy names: they decide about lessons, as approvers and admins do; `only` may keep that to them",
}


@dataclass(frozen=True, slots=True)
class Act:
    """One row. `fixed`: no file can change it. `by_request`: only approvers named by the action's terms."""

    who: frozenset[PersonRole]
    does: str
    fixed: bool = False
    by_request: bool = False


INTERNAL_ROLES: Final = frozenset(PersonRole) - {PersonRole.CUSTOMER}
ALL_ROLES: Final = frozenset(PersonRole)
CUSTOMER_ROLES: Final = frozenset({PersonRole.CUSTOMER})
APPROVER_ROLES: Final = frozenset({PersonRole.APPROVER})
BRAKE_ROLES: Final = frozenset({PersonRole.APPROVER, PersonRole.ADMIN})
LESSON_ROLES: Final = frozenset({PersonRole.APPROVER, PersonRole.ADMIN, PersonRole.KNOWLEDGE_EDITOR})
_CUSTOMER_INTENTS: Final = frozenset(
    {
        *(Intent.NEW_FACTS, Intent.RECHECK, Intent.STILL_BROKEN, Intent.REOPEN, Intent.FIXED, Intent.CLOSE),
        *(
            Intent.HAND_OFF,
            Intent.STATUS,
            Intent.WHAT_NOW,
            Intent.SUMMARY,
            Intent.REPORT,
            Intent.SAFE_TO,
            Intent.WHO_IS_ON_IT,
            Intent.PAGE_OR_WAIT,
        ),
        *(Intent.EXPLAIN, Intent.WHY_NOT, Intent.HOST_STATE, Intent.GROUP_STATE, Intent.COMPARE, Intent.HELP, Intent.META),
    }
)
# fmt: off
_INTERACTION_ACTS: Final[Mapping[str, Act]] = {
    "button.diagnosis.hand_off":       Act(INTERNAL_ROLES,   "hand the incident to people"),
    "button.diagnosis.recheck":        Act(INTERNAL_ROLES,   "ask for another check"),
    "button.diagnosis.details":        Act(INTERNAL_ROLES,   "see everything that was read"),
    "button.answer.meant":          Act(INTERNAL_ROLES,   "say what a message meant"),
    "button.feedback.vote":         Act(INTERNAL_ROLES,   "say whether a diagnosis helped"),
    "button.more.menu":             Act(INTERNAL_ROLES,   "open the forms below"),
    "button.question.meant":        Act(INTERNAL_ROLES,   "answer a question"),
    "button.ticket.take":           Act(INTERNAL_ROLES,   "take a ticket"),
    "button.ticket.wait":           Act(INTERNAL_ROLES,   "say that a ticket waits for others"),
    "button.ticket.close":          Act(INTERNAL_ROLES,   "open the form that closes an incident"),
    "button.ticket.report":         Act(INTERNAL_ROLES,   "have an incident written down as a file in its thread"),
    "button.held.ask_return":       Act(INTERNAL_ROLES,   "ask to return a node that is held"),
    "button.approval.approve":      Act(APPROVER_ROLES, "approve an action", fixed=True, by_request=True),
    "button.approval.approve_all":  Act(APPROVER_ROLES, "approve several at once; each counts separately", fixed=True, by_request=True),
    "button.approval.reject":       Act(APPROVER_ROLES, "deny an action, with a reason", fixed=True, by_request=True),
    "button.approval.ran":          Act(APPROVER_ROLES, "say that an action in doubt ran", fixed=True, by_request=True),
    "button.approval.not_ran":      Act(APPROVER_ROLES, "say that it did not", fixed=True, by_request=True),
    "button.approval.let_go":       Act(APPROVER_ROLES, "propose the next wave although a host did not pass", fixed=True, by_request=True),
    "button.approval.edit":         Act(INTERNAL_ROLES,   "propose other arguments; the editor may not approve them"),
    "button.approval.revoke":       Act(INTERNAL_ROLES,   "revoke an approval that has not started"),
    "button.approval.ask_again":    Act(INTERNAL_ROLES,   "have an action proposed once more"),
    "button.approval.show_all":     Act(INTERNAL_ROLES,   "read every command of a batch"),
    "button.customer.tell":         Act(INTERNAL_ROLES,   "open the form that tells the customer something"),
    "button.share.let_in":          Act(INTERNAL_ROLES,   "let a customer's report begin at once that waits for their share"),
    "button.customer.broken":       Act(CUSTOMER_ROLES,   "say that it is still broken", fixed=True),
    "button.customer.works":        Act(CUSTOMER_ROLES,   "say that it works again", fixed=True),
    "button.customer.person":       Act(CUSTOMER_ROLES,   "ask for a person", fixed=True),
    "button.customer.withdraw":     Act(CUSTOMER_ROLES,   "take a report back", fixed=True),
    "button.provider.show":         Act(INTERNAL_ROLES,   "see what would leave for the provider"),
    "button.provider.send":         Act(INTERNAL_ROLES,   "send the provider what was shown"),
    "button.provider.back":         Act(INTERNAL_ROLES,   "leave it unsent"),
    "button.tracker.open":          Act(INTERNAL_ROLES,   "see what would leave for a tracker"),
    "button.tracker.choose":        Act(INTERNAL_ROLES,   "see what would leave for one of several trackers"),
    "button.lesson.accept":         Act(LESSON_ROLES,  "have a lesson used from now on"),
    "button.lesson.edit":           Act(LESSON_ROLES,  "open the form that changes the draft of a lesson"),
    "button.lesson.refuse":         Act(LESSON_ROLES,  "have a lesson never used"),
    "button.lesson.restore":        Act(LESSON_ROLES,  "have a retired lesson used again"),
    "form.lesson.submit":           Act(LESSON_ROLES,  "change the draft of a lesson"),
    "form.close_modal.submit":      Act(INTERNAL_ROLES,   "close an incident with its cause"),
    "form.feedback.submit":         Act(INTERNAL_ROLES,   "say what was wrong with a diagnosis"),
    "form.more.assign":             Act(INTERNAL_ROLES,   "note who is on it"),
    "form.more.correct":            Act(INTERNAL_ROLES,   "note what it really was"),
    "form.tracker.send":            Act(INTERNAL_ROLES,   "open the ticket in a tracker that was shown"),
    "form.reject_modal.submit":     Act(APPROVER_ROLES, "deny an action, with a reason", fixed=True, by_request=True),
    "form.edit_modal.submit":       Act(INTERNAL_ROLES,   "propose other arguments"),
    "form.customer_tell":           Act(INTERNAL_ROLES,   "write something to the customer, and see it as they will read it"),
    "form.customer_tell_send":      Act(INTERNAL_ROLES,   "send it to them"),
    "command.help":                 Act(INTERNAL_ROLES,   "the list of what can be said"),
    "command.status":               Act(INTERNAL_ROLES,   "what is open, and the brakes"),
    "command.stop":                 Act(INTERNAL_ROLES,   "stop all repairs", fixed=True),
    "command.resume":               Act(BRAKE_ROLES,   "resume repairs, or reset a group's breaker"),
    "shortcut.diagnose_this":            Act(INTERNAL_ROLES,   "begin a diagnosis of a message"),
}
# fmt: on
# Every act by its id; a test proves it complete.
ACTS: Final[Mapping[str, Act]] = {
    **{
        f"intent.{intent}": Act(ALL_ROLES if intent in _CUSTOMER_INTENTS else INTERNAL_ROLES, f"say it: {intent.replace('_', ' ')}")
        for intent in Intent
    },
    **_INTERACTION_ACTS,
}


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
    only: Mapping[str, tuple[PersonRole, ...]] = Field(default_factory=dict)  # act → the roles that keep it

    @property
    def named_people(self) -> tuple[tuple[PersonRole, NamedPeople], ...]:
        """The roles that a file assigns, with their people."""
        return (PersonRole.ADMIN, self.admin), (PersonRole.KNOWLEDGE_EDITOR, self.knowledge_editor)

    def get_roles(self, act: str) -> frozenset[PersonRole]:
        """Return the roles that may. Raise KeyError for an unknown act."""
        roles = self.only.get(act)
        return ACTS[act].who if roles is None else ACTS[act].who & frozenset(roles)

    def list_problems(self) -> list[tuple[str, str]]:
        """Return (act, problem) of each invalid row of `only`."""
        return [(act, problem) for act, roles in self.only.items() if (problem := self._find_problem(act, frozenset(roles)))]

    def _find_problem(self, act: str, roles: frozenset[PersonRole]) -> str:
        if act not in ACTS:
            return f"{act!r} is no act; docs/roles.md lists them"
        if ACTS[act].fixed:
            return f"who may {ACTS[act].does} cannot be changed"
        if wider := sorted(roles - ACTS[act].who):
            return f"{', '.join(wider)} may not {ACTS[act].does} at all; a file takes away and never gives"
        empty = {role for role, people in self.named_people if not people}
        return "no person would be left with this right; name people under admin or knowledge_editor" if not roles - empty else ""


def require_role(table: RoleTable, act: str, roles: frozenset[PersonRole]) -> None:
    """Raise NotAllowed unless one of the roles may do the act."""
    allowed_roles = table.get_roles(act)
    if not allowed_roles & roles:
        raise NotAllowed(
            f"Only {' and '.join(f'{name}s' for name in sorted(role.replace('_', ' ') for role in allowed_roles))} may do that here."
        )
