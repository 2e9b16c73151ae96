"""A tenant's report has their words and their host names, and nothing else of the incident."""

import json
import re
from dataclasses import replace
from typing import cast

import pytest

from bot.reports.incident_sources import NotTenantIncident, TenantReportContext
from bot.reports.page import Page, build_page_document
from bot.reports.page_formats import FORMATS, PageFormat
from bot.tenants.leak_detector import LeakDetector
from graph.state import IncidentState
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.bot.reports.samples import FELL_OFF, NAMES, Kept, handed_off, of_customer
from tests.support.clock import T0
from tests.support.inventories import inventory
from tests.support.written import text_of

pytestmark = pytest.mark.slow


SITE = inventory(
    groups={"acme": {"hosts": "gpu-017", "tenant": "acme"}, "canary": {"hosts": "gpu-018", "tenant": "canary"}},
    hosts={"gpu-017": {"alias": "train-01"}},
    channels=[{"channel": "C0OPS", "kind": "operators"}, {"channel": "C0ACME", "kind": "tenant", "tenant": "acme", "internal": "C0OPS"}],
)
WORDS = load_customer_words(load_taxonomy())


async def page_in(language: str) -> Page:
    kept = await of_customer()
    return await kept.sources.build_tenant_page(kept.id, TenantReportContext(SITE, WORDS, {"C0ACME": language}))


@pytest.mark.parametrize("language", ["en", "de"])
async def test_nothing_of_the_inside_is_on_it(language: str) -> None:
    page = await page_in(language)
    text = json.dumps(build_page_document(page), ensure_ascii=False)
    people = [part for name in NAMES.values() for part in name.split()]
    inside = (
        "gpu-018",
        "gpu-017",
        "canary",
        "apr-",
        "reboot",
        "Xid",
        "%",
        "C0OPS",
        "rejected",
        "no job on it",
        "hunter2",
        "riser",
        *people,
        *NAMES,
    )
    assert [word for word in inside if re.search(rf"(?<!\w){re.escape(word)}", text, re.IGNORECASE)] == []
    assert LeakDetector(SITE, "acme", page.incident, NAMES.values()).find_leaks(text) == ()
    assert "train-01" in text


# other tenants' and internal data in the incident: names, a host, addresses, incidents
NEIGHBOURS = ("inc-0badd0", "inc-feed99", "10.7.0.18", "192.0.2.77", "gpu-018", "canary", "hunter2-of-bob", "Ann Approver", "apr-", "C0OPS")


@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("language", ["en", "de"])
async def test_no_word_of_the_others_is_in_any_file_of_theirs(how: PageFormat, language: str) -> None:
    """Searches the extracted text, because a PDF's bytes are compressed."""
    kept = await beside_others()
    page = await kept.sources.build_tenant_page(kept.id, TenantReportContext(SITE, WORDS, {"C0ACME": language}))
    theirs = text_of(how, FORMATS[how].write(page))
    assert "train-01" in theirs
    assert [word for word in (*NEIGHBOURS, *NAMES, *NAMES.values()) if word.casefold() in theirs.casefold()] == []
    assert LeakDetector(SITE, "acme", page.incident, NAMES.values()).find_leaks(theirs) == ()


@pytest.mark.parametrize("how", FORMATS)
async def test_the_search_finds_what_stands_in_a_file(how: PageFormat) -> None:
    """The operators' report contains all of it except the secret."""
    kept = await beside_others()
    ours = text_of(how, FORMATS[how].write(await kept.sources.build_operator_page(kept.id)))
    plain = ours.replace("\\", "")
    found = ("inc-0badd0", "10.7.0.18", "192.0.2.77", "gpu-018", "Ann Approver")
    assert [word for word in found if word not in plain] == []
    assert "hunter2-of-bob" not in plain


async def beside_others() -> Kept:
    """Return a tenant's incident mixed with others' data: addresses in its evidence, incidents in its words."""
    kept = await of_customer()
    report = dict(kept.state["report"])
    report["by_hand"] = ["Compare with inc-0badd0 of canary on gpu-018 (10.7.0.18)."]
    report["shared"] = [{"label": FELL_OFF, "incident": "inc-feed99", "hosts": ["gpu-018"]}]
    said = {"user": "ANN", "text": "gpu-018 answers at 192.0.2.77, see inc-0badd0", "at": T0.isoformat()}
    return replace(kept, state=cast(IncidentState, {**kept.state, "report": report, "said": [*kept.state["said"], said]}))


async def test_it_is_in_their_language() -> None:
    assert (await page_in("de")).title == "Vorgang inc-1: Ein Fehler auf unserer Seite"
    assert (await page_in("en")).lead == "One of our people has it."


async def test_who_may_see_it_all_does() -> None:
    """Proves that the search above has something to find."""
    kept = await of_customer()
    text = json.dumps(build_page_document(await kept.sources.build_operator_page(kept.id)), ensure_ascii=False)
    assert all(word in text for word in ("gpu-018", "apr-", "no job on it", "Ann Approver"))


async def test_an_incident_of_no_customer_has_none() -> None:
    kept = await handed_off()
    with pytest.raises(NotTenantIncident, match="reported by no customer"):
        await kept.sources.build_tenant_page(kept.id, TenantReportContext(SITE, WORDS))
