"""Loads a site's files on top of the built-in ones.

Apart from `diagnosis_runtime` to spare listing commands half a second of imports (measured).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bot.policy.policy_file import BadPolicy, SitePolicy, load_policy
from bot.refusal import Refusal
from bot.settings import ENV_PREFIX, Settings
from kb.guides.guide import Guide
from kb.guides.loader import BadGuides, GuideVocabulary, load_guides
from kb.history.incidents import BadSeeds, PastIncident, load_seeds
from kb.history.site_pages import BadPages, SitePage, load_pages
from kb.needle_search import split_lines
from kb.taxonomy.loader import BadTaxonomy, load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.checks.site.filters import BadFilters, LogFilter, add_filters, load_filters
from tools.checks.site.loader import BadChecks, load_site_checks
from tools.checks.site.readonly import explain_refused_folder
from tools.checks.site.rule_matching import add_rules
from tools.checks.site.rules import BadRules, LogRule, load_rules
from tools.inventory.inventory import Inventory
from tools.inventory.sku import BadSku, Sku, load_skus
from tools.remedies import REMEDIES


class BadSite(Refusal):
    """Files of the site that cannot be used: every problem, each with its file and line."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        super().__init__("\n".join([f"{ENV_PREFIX}KB_DIR: {what} cannot be used:", *problems]), 2)
        self.problems = tuple(problems)


def load_all_checks(settings: Settings) -> Mapping[str, Check]:
    """Return all checks by id, with the site's log rules. Raises Refusal."""
    if refused := [why for folder in settings.check_programs if (why := explain_refused_folder(folder))]:
        raise Refusal("\n".join(f"{ENV_PREFIX}CHECK_PROGRAMS: {why}" for why in refused), 2)
    try:
        own = load_site_checks(*find_site_folder(settings.kb_dir, "checks"), known=CHECKS, programs=settings.check_programs)
    except BadChecks as why:
        raise BadSite("its checks", why.problems) from why
    return add_log_rules({**CHECKS, **own}, settings.kb_dir)


def add_log_rules(checks: Mapping[str, Check], kb_dir: Path | None) -> Mapping[str, Check]:
    """Return the checks with the site's log rules and filters. Raises BadSite."""
    return add_rules(add_filters(checks, load_site_filters(kb_dir)), load_site_rules(kb_dir))


def load_site_rules(kb_dir: Path | None) -> tuple[LogRule, ...]:
    """Return the site's log rules. Raises BadSite."""
    try:
        return load_rules(*find_site_folder(kb_dir, "rules"))
    except BadRules as why:
        raise BadSite("the rules for lines of logs", why.problems) from why


def load_site_filters(kb_dir: Path | None) -> tuple[LogFilter, ...]:
    """Return filters for normal lines of job logs. Raises BadSite."""
    try:
        return load_filters(*find_site_folder(kb_dir, "filters"))
    except BadFilters as why:
        raise BadSite("the filters for lines of logs", why.problems) from why


def load_site_taxonomy(kb_dir: Path | None) -> Taxonomy:
    """Return the taxonomy including the site's leaves. Raises BadSite."""
    try:
        return load_taxonomy(*find_site_folder(kb_dir, "taxonomy"))
    except BadTaxonomy as why:
        raise BadSite("the taxonomy", why.problems) from why


def load_site_incidents(kb_dir: Path | None, taxonomy: Taxonomy | None = None) -> tuple[PastIncident, ...]:
    """Return past incidents; the site's win on equal ids. Labels are checked against `taxonomy`. Raises BadSite."""
    labels = taxonomy.leaves.keys() if taxonomy else None
    try:
        own = [one for folder in find_site_folder(kb_dir, "incidents") for one in load_seeds(folder, labels)]
    except BadSeeds as why:
        raise BadSite("the past incidents", why.problems) from why
    return tuple({one.id: one for one in (*load_seeds(), *own)}.values())


def load_site_pages(kb_dir: Path | None, taxonomy: Taxonomy | None = None) -> tuple[SitePage, ...]:
    """Return the site's pages. Raises BadSite."""
    try:
        return tuple(
            page for folder in find_site_folder(kb_dir, "pages") for page in load_pages(folder, taxonomy.leaves if taxonomy else None)
        )
    except BadPages as why:
        raise BadSite("the pages", why.problems) from why


def load_site_guides(settings: Settings, checks: Mapping[str, Check] | None = None) -> Mapping[str, Guide]:
    """Return troubleshooting guides; the site's win on equal ids. Raises BadSite."""
    known = checks or load_all_checks(settings)
    try:
        return load_guides(*find_site_folder(settings.kb_dir, "guides"), parts=build_guide_parts(known))
    except BadGuides as why:
        raise BadSite("the guides", why.problems) from why


def build_guide_parts(checks: Mapping[str, Check]) -> GuideVocabulary:
    """Return what guides may name. `resume_node` follows a remediation automatically."""
    establishes = {check.id: check.establishes for check in checks.values()}
    alone = frozenset(check.id for check in checks.values() if check.exclusive)
    return GuideVocabulary(establishes, alone, frozenset(REMEDIES) - {"run_check", "resume_node"})


def load_site_skus(kb_dir: Path | None) -> Mapping[str, Sku]:
    """Return the SKU profiles. Raises BadSite."""
    try:
        return load_skus(*find_site_folder(kb_dir, "sku"))
    except BadSku as why:
        raise BadSite("the SKU profiles", split_lines(str(why))) from why


def load_site_policy(settings: Settings, inventory: Inventory | None = None) -> SitePolicy:
    """Return the policy, checked against `inventory`. Raises Refusal."""
    if settings.policy is None:
        return SitePolicy()
    try:
        return load_policy(settings.policy, inventory)
    except BadPolicy as why:
        raise Refusal("\n".join([f"{ENV_PREFIX}POLICY: the policy cannot be used:", *why.problems]), 2) from why


def find_site_folder(kb_dir: Path | None, part: str) -> tuple[Path, ...]:
    """Return a tuple of the folder, or an empty one."""
    folder = kb_dir / part if kb_dir else None
    return (folder,) if folder and folder.is_dir() else ()
