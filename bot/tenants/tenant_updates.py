"""*Tell the customer…*: a form with a draft, a leak check that names its findings, a preview, then delivery.

The message goes to the tenant's thread, or to the tenant's own RackMedic when that polls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bot.cards.blocks import Card
from bot.cards.buttons import BadForm, OldButton
from bot.incidents.context import HandlerContext
from bot.policy import channels as policy
from bot.policy.channels import SlackPlace
from bot.provider.ticket_importer import PROVIDER_LINK_USER
from bot.refusal import Refusal
from bot.slack.handlers import SlackHandlers
from bot.slack.payloads import Payload
from bot.slack.posted_messages import IdempotentPoster, PostedCards
from bot.store.unreachable import guard_store
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.cards.view import TenantView
from bot.tenants.leak_detector import LeakDetector
from bot.tenants.tenant_cards import build_tenant_place
from graph.state import Origin
from tools.inventory.inventory import Inventory

MAX_PEOPLE_CHECKED = 60  # Channel members whose names are checked; Slack is asked about each at most once a minute.
MAX_FIELD_ERROR_CHARS = 900  # Slack shows no more under a field.
UPDATE_EVENT_TYPE = "rackmedic_customer_told_by_people"
NO_INTAKE_OPEN = "Their RackMedic could not fetch it: no intake is open here (RACKMEDIC_INTAKE_KEYS), so tell them another way."
TICKET_CLOSED = (
    "Their ticket is closed, and their RackMedic no longer polls. Write in this thread what is new to reopen it, then tell them."
)
UPDATE_LIMIT_REACHED = "Too much was said to this ticket already; tell them another way."
TenantViewLoader = Callable[[str, Origin], Awaitable[TenantView | None]]


class TenantUpdateStore(Protocol):
    """Stores messages until the tenant's own RackMedic fetches them."""

    async def append_message(self, incident: str, key: str, words: str) -> int: ...


@dataclass(frozen=True, slots=True)
class TenantUpdateHandlers:
    """Handlers of the button and forms. `view_of`: the tenant's current view. `kept`: None without an open intake."""

    context: HandlerContext
    cards: PostedCards
    inventory: Inventory
    view_of: TenantViewLoader
    kept: TenantUpdateStore | None = None

    async def handle_click(self, payload: Payload) -> None:
        """Open the form. Raise Refusal."""
        pressed = internal_thread.parse_tell_click(payload)
        origin = await self._authorize_operator(
            payload, pressed.incident, f"button.{internal_thread.TELL_ACTION_ID}", f"form.{internal_thread.TELL_FORM_CALLBACK_ID}"
        )
        self._require_delivery_path(origin)
        view = await self.view_of(pressed.incident, origin)
        form = internal_thread.render_tell_form(pressed.incident, origin.tenant, tenant_card.build_operator_draft(view) if view else "")
        await self.context.client.views_open(trigger_id=str(payload["trigger_id"]), view=form)

    async def build_preview(self, payload: Payload) -> Mapping[str, Any]:
        """Push the preview of the message as the tenant reads it. Raise BadForm on a leak."""
        incident, words = internal_thread.parse_tell_form(payload)
        origin = await self._authorize_operator(payload, incident, f"form.{internal_thread.TELL_FORM_CALLBACK_ID}")
        await self._check_for_leaks(payload, incident, origin, words)
        shown = tenant_card.render_operator_message(words, self._get_language(origin))
        return {"response_action": "push", "view": internal_thread.render_tell_preview(incident, origin.tenant, words, shown)}

    async def handle_send(self, payload: Payload) -> Mapping[str, Any]:
        """Check again, because names and people change, send once, and close both forms. Raise Refusal or BadForm."""
        incident, words = internal_thread.parse_tell_form(payload)
        origin = await self._authorize_operator(
            payload, incident, f"form.{internal_thread.TELL_FORM_CALLBACK_ID}", f"form.{internal_thread.TELL_SEND_CALLBACK_ID}"
        )
        who = await self._check_for_leaks(payload, incident, origin, words)
        key = str(payload["view"].get("root_view_id") or payload["view"]["id"])
        if origin.customer is not None:
            where, said = build_tenant_place(origin.customer), tenant_card.render_operator_message(words, self._get_language(origin))
            await self._post_once(where, incident, f"told_by:{key}", said)
        else:
            await self._store_for_ticket(incident, key, words)
        self.context.tasks.spawn_task(
            "customer_told",
            self._post_internal_note(incident, origin, key, internal_thread.render_sent_message(who, words, fetched=not origin.customer)),
        )
        return {"response_action": "clear"}

    async def _store_for_ticket(self, incident: str, key: str, words: str) -> None:
        if self.kept is None:
            raise Refusal(NO_INTAKE_OPEN)
        async with guard_store():
            if await self.context.inbox.get_lifecycle(incident) == "closed":
                raise Refusal(TICKET_CLOSED)
            if not await self.kept.append_message(incident, key, words):
                raise Refusal(UPDATE_LIMIT_REACHED)

    async def _post_internal_note(self, incident: str, origin: Origin, key: str, card: Card) -> None:
        if origin.thread_ts and not await self.context.people.is_shared(origin.channel):
            await self._post_once(origin, incident, f"told_note:{key}", card)

    async def _post_once(self, where: Origin, incident: str, name: str, card: Card) -> None:
        marked = {"event_type": UPDATE_EVENT_TYPE, "event_payload": {"form": name}}
        await IdempotentPoster(self.context.client, self.cards).post_once(where, incident, name, card, marked)

    async def _check_for_leaks(self, payload: Payload, incident: str, origin: Origin, words: str) -> str:
        """Return the author's name. Raise BadForm on a leak."""
        if not words:
            raise BadForm({internal_thread.WORDS_BLOCK_ID: "Nothing to send."})
        who = await self.context.people.get_name(str(payload["user"]["id"]))
        names = {who, *(await self._list_people(incident, origin))}
        theirs = origin.ticket.partition("/")[2]
        if found := LeakDetector(self.inventory, origin.tenant, incident, names, theirs).find_leaks(words):
            raise BadForm({internal_thread.WORDS_BLOCK_ID: f"Not sent. Take out: {'; '.join(map(str, found))}."[:MAX_FIELD_ERROR_CHARS]})
        return who

    async def _authorize_operator(self, payload: Payload, incident: str, *acts: str) -> Origin:
        """Return the origin. Admit only a colleague in the operators' channel, unshared at this moment."""
        async with guard_store():
            origin = await self.context.inbox.get_origin(incident)
        if origin is None or not (origin.customer or origin.ticket):
            raise OldButton
        if origin.customer is not None and policy.find_tenant_channel(origin, self.context.channel_bindings) is None:
            raise OldButton
        user = payload.get("user") or {}
        team = origin.team or str((await self.context.client.auth_test())["team_id"])  # a new ticket's origin may lack the team
        if str(user.get("team_id") or "") != team:
            raise policy.NotAllowed(policy.NOT_FULL_MEMBER_TEXT)
        await self.context.admit_user(SlackPlace(team, origin.channel), str(user["id"]), fresh=True)
        for act in acts:
            await self.context.require_permission(act, str(user["id"]), origin.channel, origin)
        return origin

    def _require_delivery_path(self, origin: Origin) -> None:
        if origin.customer is None and self.kept is None:
            raise Refusal(NO_INTAKE_OPEN)

    def _get_language(self, origin: Origin) -> str:
        row = self.context.channel_bindings.get(origin.customer.channel) if origin.customer else None
        return row.language if row else "en"

    async def _list_people(self, incident: str, origin: Origin) -> set[str]:
        """Return the names of people involved, which the tenant must not read."""
        state = await self.context.load_state(incident)
        ticket: Mapping[str, Any] = state.get("ticket") or {}
        users = {str(state.get("owner") or ""), str(ticket.get("taken_by") or ""), *_list_authors(state.get("said") or [], origin)}
        users |= set(sorted(await self.context.people.list_channel_members(origin.channel))[:MAX_PEOPLE_CHECKED])
        return {name for name in await asyncio.gather(*(self.context.people.get_name(user) for user in users if user)) if name}


def _list_authors(rows: Any, origin: Origin) -> set[str]:
    theirs = origin.customer.user if origin.customer else PROVIDER_LINK_USER
    return {str(row.get("user") or "") for row in rows} - {theirs}


def build_tenant_update_handlers(handlers: TenantUpdateHandlers) -> SlackHandlers:
    return SlackHandlers(
        clicks=dict.fromkeys(internal_thread.BUTTONS, handlers.handle_click),
        forms={
            internal_thread.TELL_FORM_CALLBACK_ID: handlers.build_preview,
            internal_thread.TELL_SEND_CALLBACK_ID: handlers.handle_send,
        },
    )
