"""The catalogue of checks as this site has it: the built-in ones and those of its own files."""

from collections.abc import Mapping
from pathlib import Path

from bot.refusal import Refusal
from bot.settings import PREFIX
from tools.checks import CHECKS
from tools.checks.row import Check
from tools.checks.site.reader import BadChecks, load_site_checks


def site_folder(kb_dir: Path | None, part: str) -> tuple[Path, ...]:
    """A site's own folder of that name, where there is one."""
    folder = kb_dir / part if kb_dir else None
    return (folder,) if folder and folder.is_dir() else ()


def catalogue(kb_dir: Path | None) -> Mapping[str, Check]:
    """Every check by id. Raises Refusal with all problems of the site's files."""
    try:
        return {**CHECKS, **load_site_checks(*site_folder(kb_dir, "checks"), known=CHECKS)}
    except BadChecks as why:
        raise Refusal("\n".join([f"{PREFIX}KB_DIR: its checks cannot be used:", *why.problems]), 2) from why
