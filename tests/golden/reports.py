"""Golden texts of incident reports in Markdown."""

import asyncio
from collections.abc import Mapping

from bot.reports.page_formats import FORMATS
from tests.bot.reports.samples import handed_off, nothing_found, one_host
from tests.golden.written import stable

INCIDENTS = {"closed": one_host, "handed-off": handed_off, "nothing-found": nothing_found}


def reports() -> Mapping[str, str]:
    return asyncio.run(_written())


async def _written() -> Mapping[str, str]:
    texts = {}
    for name, make in INCIDENTS.items():
        kept = await make()
        texts[f"{name}.md"] = stable(FORMATS["md"].write(await kept.sources.build_operator_page(kept.id)).decode())
    return texts
