"""Ticket documents as tenants' RackMedics write them, of the standard incident: a GPU fell off the bus."""

import asyncio
from datetime import UTC, datetime
from functools import cache
from typing import Any

from graph.incident_view import IncidentView
from graph.state import IncidentState
from graph.ticket_export.document import TicketDocument
from graph.ticket_export.document_builder import ExportPrivacy, build_ticket_document, load_public_chunks
from tests.support.talk import Talk
from tools.fact import Fact

MADE = datetime(2026, 5, 20, 4, 0, tzinfo=UTC)
SALT = b"s" * 32
public = cache(load_public_chunks)


@cache
def known() -> tuple[IncidentView, list[Fact]]:
    """Return the diagnosed incident's rows and facts."""

    async def diagnosed() -> tuple[IncidentView, list[Fact]]:
        talk = await Talk.about()
        rows = await talk.rows()
        return rows, await talk.ports.evidence.get_facts(rows.stored["facts"])

    return asyncio.run(diagnosed())


def ticket(*, words: str = "job 4711 hangs on gpu-[001-004]", facts: tuple[Fact, ...] = (), **more: Any) -> TicketDocument:
    rows, seen = known()
    stored: IncidentState = {**rows.stored, "said": [{**rows.messages[0], "text": words}]}
    return build_ticket_document(IncidentView(stored), [*seen, *facts], ExportPrivacy(SALT, public(), **more), MADE)


# a small document as it may arrive
SAID = TicketDocument.model_validate(
    {
        "incident": "inc-a1",
        "made": MADE,
        "hosts": ["gpu-017", "gpu-018"],
        "said": [{"text": "~0123456789ab hangs since 02:40"}],
        "hypotheses": [{"label": "GPU.BUS.Fallen_Off_Bus", "verdict": "confirmed", "confidence": 0.99, "because": "lspci shows rev ff", "hosts": ["gpu-017"]}],
        "facts": [{"host": "gpu-017", "check": "dmesg", "key": "kernel.xid", "device": "gpu5", "value": 79, "line": "NVRM: Xid 79"}],
        "versions": [{"what": "driver.version", "value": "570.148.08", "hosts": ["gpu-017", "gpu-018"]}],
    }
)  # fmt: skip
