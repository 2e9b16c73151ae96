"""`rackmedic report`: an incident as a page, for operators or the tenant."""

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from bot.cli.command_runtime import print_text, write_to_stdout
from bot.cli.safe_console import format_json_line
from bot.refusal import Refusal
from bot.reports.figures import build_bandwidth_expectation
from bot.reports.incident_sources import IncidentSources, TenantReportContext, use_id_as_name
from bot.reports.page import Page, build_page_document
from bot.reports.page_formats import FORMATS, PageFormat

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.store.store import Store

STDOUT_PATH = "-"


@dataclass(frozen=True, slots=True)
class PostmortemRequest:
    """Arguments of `report`. Raises Refusal."""

    incident: str
    format: str = ""
    out: Path | None = None
    customer: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.format and self.format not in FORMATS:
            raise Refusal(f"--format {self.format}: there is {', '.join(FORMATS)}; --json is for scripts", 2)
        if not self.format and self._suffix in ("html", "htm"):
            raise Refusal(f"--out {self.out}: a report is not written as HTML: there is {', '.join(FORMATS)}; --json is for scripts", 2)
        if (
            not self.is_file_output
            and not self.as_json
            and not FORMATS[self.output_format].text
            and (self.out is None or sys.stdout.isatty())
        ):
            raise Refusal(f"a PDF is no text: say where to write it, for example --out {self.incident}.pdf", 2)
        if self.out and self.is_file_output and not self.out.absolute().parent.is_dir():
            raise Refusal(f"--out {self.out}: there is no folder {self.out.parent}", 2)

    @property
    def is_file_output(self) -> bool:
        return self.out is not None and str(self.out) != STDOUT_PATH

    @property
    def output_format(self) -> PageFormat:
        wanted_format = self.format or self._suffix
        return next((name for name in get_args(PageFormat) if name == wanted_format), "md")

    @property
    def _suffix(self) -> str:
        return self.out.suffix.lower().removeprefix(".") if self.out else ""


async def write_report(settings: "Settings", request: PostmortemRequest) -> int:
    """Build and write the page. Raises Refusal."""
    from bot.app.logs import set_up_logs
    from bot.cli.persistent_store import open_persistent_store

    set_up_logs(settings.log_level, settings.log_format)
    async with open_persistent_store(settings, "incidents") as store, open_incident_sources(settings, store) as sources:
        page = await _build_page(settings, store, sources, request)
    content = FORMATS[request.output_format].write(page)
    if request.is_file_output and request.out:
        _write_file(request.out, content)
    if request.as_json:
        row = {"file": str(request.out), "format": request.output_format, "bytes": len(content)} if request.is_file_output else {}
        print_text(format_json_line({**build_page_document(page), **row}))
    elif request.is_file_output:
        print_text(
            f"{request.out}: {FORMATS[request.output_format].says}, {len(content):,} bytes, for {_format_audience(page)}. Read it before it leaves."
        )
    else:
        write_to_stdout(content, text=FORMATS[request.output_format].text)
    return 0


def _format_audience(page: Page) -> str:
    return "the customer" if page.audience == "customer" else "your own people"


async def _build_page(settings: "Settings", store: "Store", sources: IncidentSources, request: PostmortemRequest) -> Page:
    if not request.customer:
        return await sources.build_operator_page(request.incident)
    from bot.slack.posted_messages import PostedCards

    withdrawn = bool(await PostedCards(store.redis).get(request.incident, "customer_withdrawn"))
    return await sources.build_tenant_page(request.incident, await load_tenant_context(settings), withdrawn=withdrawn)


async def load_tenant_context(settings: "Settings") -> TenantReportContext:
    """Load what tenant pages need. Raises Refusal."""
    from bot.app.diagnosis_runtime import load_site_inventory
    from bot.app.site_files import load_site_skus, load_site_taxonomy
    from bot.app.tenants import build_known_lookup
    from kb.customers.cause_words import load_customer_words

    inventory, taxonomy = await load_site_inventory(settings), load_site_taxonomy(settings.kb_dir)
    languages = {row.channel: row.language for row in inventory.channels}
    lookup = build_known_lookup(inventory, taxonomy, load_site_skus(settings.kb_dir))
    return TenantReportContext(inventory, load_customer_words(taxonomy), languages, lookup)


@contextlib.asynccontextmanager
async def open_incident_sources(settings: "Settings", store: "Store") -> AsyncIterator[IncidentSources]:
    """Open the data of reports; works without Slack token or usable ledger."""
    from bot.app.diagnosis_runtime import WallClock
    from bot.app.site_files import load_site_skus, load_site_taxonomy
    from bot.cli.ledger import EMPTY_INVENTORY
    from bot.incidents.dispatch.metrics import IncidentMetricsStore
    from bot.store.open_ledger import open_ledger
    from graph.state_reader import IncidentStateReader
    from tools.evidence import DirectoryEvidence

    clock, no_ledger = WallClock(), ""
    try:
        ledger = await open_ledger(settings, store, EMPTY_INVENTORY, clock, changing=True)
    except Refusal as error:
        ledger, no_ledger = None, str(error)
    taxonomy, skus = load_site_taxonomy(settings.kb_dir), load_site_skus(settings.kb_dir)
    yield IncidentSources(
        IncidentStateReader(store.redis).load_state,
        DirectoryEvidence(settings.evidence_dir),
        clock,
        ledger,
        no_ledger,
        IncidentMetricsStore(store.redis).load_metrics,
        _build_name_lookup(settings),
        taxonomy.titles,
        partial(build_bandwidth_expectation, EMPTY_INVENTORY, skus),
    )


def _build_name_lookup(settings: "Settings") -> Callable[[str], Awaitable[str]]:
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        return use_id_as_name
    from bot.slack.client import build_slack_client
    from bot.slack.people import People

    return People(build_slack_client(token, settings.slack_api_url)).get_name


def _write_file(out: Path, content: bytes) -> None:
    try:
        out.write_bytes(content)
    except OSError as error:
        raise Refusal(f"--out {out}: cannot be written: {error.strerror}") from error
