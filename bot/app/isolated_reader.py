"""Reads large uploaded texts in a separate process."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

from bot.app.site_files import find_site_folder
from graph.extraction.uploaded_text import TextExtraction, extract_text_with_site
from tools.process_pool import ProcessPool, WorkTimeout

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class IsolatedTextReader:
    """Extracts facts with the site's checks (`kb_dir`) and program folders (`programs`)."""

    apart: ProcessPool
    kb_dir: Path | None
    programs: tuple[str, ...] = ()

    async def __call__(self, name: str, sha256: str, text: str, now: datetime) -> TextExtraction | None:
        try:
            checks, rules, filters = (find_site_folder(self.kb_dir, part) for part in ("checks", "rules", "filters"))
            return await self.apart.run(extract_text_with_site, checks, rules, filters, self.programs, name, sha256, text, now)
        except WorkTimeout as why:
            log.warning("handed_in.not_read", name=name, sha256=sha256, why=str(why))
            return None
