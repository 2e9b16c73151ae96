"""Wiring of lessons: workers draft them, operators decide in Slack."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from bot.incidents.cards.close_form import LabelChoices
from bot.incidents.cards.report_rows import CauseTitles
from bot.incidents.context import HandlerContext
from bot.lessons.handlers import LessonCards, LessonHandlers
from bot.lessons.lesson_follower import LessonFollower
from bot.lessons.lesson_observer import LessonDrafter, LessonObserver
from bot.lessons.store import LessonStore
from bot.slack.posted_messages import EditableMessages
from bot.store.store import Store
from graph.learning.lesson_drafts import NodeTenantLookup, draft_lesson
from graph.state import IncidentState
from kb.history.index import PastIncidentIndex
from kb.history.lessons import Lesson
from kb.history.mistakes import MistakeNotes
from kb.taxonomy.taxonomy import Taxonomy
from tools.inventory.inventory import Inventory


@dataclass(frozen=True, slots=True)
class LessonServices:
    handlers: LessonHandlers
    observer: LessonObserver
    follower: LessonFollower


def build_lesson_services(
    store: Store,
    context: HandlerContext,
    editable_messages: EditableMessages,
    label_choices: LabelChoices,
    titles: CauseTitles,
    drafter: LessonDrafter,
    history: PastIncidentIndex,
    mistakes: MistakeNotes,
) -> LessonServices:
    lessons = LessonStore(store.redis)
    cards = LessonCards(editable_messages, context.inbox, context.people, titles)
    return LessonServices(
        LessonHandlers(context, lessons, cards, label_choices),
        LessonObserver(lessons, drafter, cards.update_card, context.clock),
        LessonFollower(lessons, history, context.clock, cards.update_card, mistakes=mistakes),
    )


def build_lesson_drafter(inventory: Inventory, taxonomy: Taxonomy) -> LessonDrafter:
    """Return what drafts a lesson of a closed incident, without another tenant's lines."""

    def draft(state: IncidentState, now: datetime) -> Lesson | None:
        return draft_lesson(state, now, taxonomy.leaves, lambda hosts: _list_tenants(inventory, hosts), _build_tenant_lookup(inventory))

    return draft


def _build_tenant_lookup(inventory: Inventory) -> NodeTenantLookup | None:
    """Return Slurm node name → tenant, or None if no host has one."""
    known = {host.slurm_name: host.tenant for host in inventory.hosts.values()}
    return known.get if any(known.values()) else None


def _list_tenants(inventory: Inventory, hosts: Iterable[str]) -> frozenset[str]:
    known = (inventory.hosts.get(host) for host in hosts)
    return frozenset(row.tenant for row in known if row is not None and row.tenant)
