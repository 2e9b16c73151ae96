"""What the handlers of incidents share, by group."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bot.alerts.posted_alerts import PostedAlerts
from bot.incidents.cards.incident_menu import LabelChoices
from bot.incidents.context import HandlerContext
from bot.incidents.direct_messages import DirectMessages
from bot.incidents.dispatch.metrics import IncidentMetricsStore
from bot.incidents.dispatch.thread_activity import ThreadActivity
from bot.reports.incident_sources import TenantReportContext
from bot.reports.page_formats import PageFormat
from bot.store.quotas import QuotaWaitingList
from bot.tasks import KeyedLocks
from graph.dialogue.said import Vocabulary
from graph.state import Origin
from tools.fact import Fact

# Takes the alerts of a bot that lists several per message, by channel and timestamp; returns their incidents.
AlertBatchSubmitter = Callable[[str, str, PostedAlerts], Awaitable[list[str]]]


class ReportWriter(Protocol):
    """Posts an incident as a page into its thread."""

    def begin_report(self, incident: str, place: Origin, form: PageFormat = "pdf") -> None: ...

    def begin_tenant_report(self, incident: str, place: Origin, customer: TenantReportContext, *, withdrawn: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class OpenWorkServices:
    """For lists of open incidents and pending actions."""

    context: HandlerContext
    quota_waiting_list: QuotaWaitingList  # incidents of tenants over their quota
    tenant_labels: Collection[str] = ()  # labels of causes that a tenant mends


@dataclass(frozen=True, slots=True)
class MessageServices:
    """For messages in operators' and tenants' channels."""

    context: HandlerContext
    open_work: OpenWorkServices
    thread_activity: ThreadActivity
    vocabulary_of: Callable[[Origin], Vocabulary]  # names that are known in a place
    direct_messages: DirectMessages
    submit_alert_batch: AlertBatchSubmitter | None = None  # without it, each alert message is a report
    thread_locks: KeyedLocks = field(default_factory=KeyedLocks)


@dataclass(frozen=True, slots=True)
class HomeServices:
    """For the Home tab."""

    context: HandlerContext
    open_work: OpenWorkServices
    label_choices: LabelChoices
    incident_metrics: IncidentMetricsStore
    host_groups: Mapping[str, Collection[str]]  # inventory group → hosts


@dataclass(frozen=True, slots=True)
class IncidentFormServices:
    """For the buttons and forms of an incident."""

    context: HandlerContext
    hosts_of: Callable[[Origin], Collection[str]]  # the hosts that a place may name
    label_choices: LabelChoices  # labels to choose from when closing
    incident_metrics: IncidentMetricsStore
    load_facts: Callable[[str], Awaitable[Sequence[Fact]]]  # facts of an incident's latest look
    report_writer: ReportWriter
