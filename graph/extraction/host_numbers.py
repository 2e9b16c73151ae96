"""Parse hosts that are named by number: `nodes 3-6`, `affected hosts: 01 to 04`, `b200-r7 01, 02 and 07`.

Numbers count, date and measure far more often than they name hosts. They name some only directly after a host word, or,
where they are zero-padded, after a link such as `:` or the beginning of a known name.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from graph.extraction.host_index import NON_HOST_PATTERN, HostIndex
from graph.extraction.host_lists import MAX_RANGE_HOSTS

NEARBY_CHARS = 200  # Around a device word: a host named here owns the numbered devices.
_HOST_WORDS = r"(?:nodes?|hosts?|machines?|servers?|knoten|rechner|n[oœ]uds?|nodos?)"
_STEP = (
    r"(?: ?(?:-|–|…|\.\.\.?|,|/|&|\+|\b(?:to|through|thru|until|till?|bis|und|and|or|et|y|à)\b)(?: (?:and|or|und))? ?"
    r"#?\d{1,6}(?![\w:%]))"
)
_NUMBERS = rf"#?(?P<first>\d{{1,6}})(?![\w:%])(?P<more>{_STEP}{{0,64}}+)"
# After numbers: they count, measure or date something.
_NO_UNIT = (
    r"(?!\.\d)(?! ?(?:gpu|node|rank|times|x\b|minute|hour|second|secs?\b|m?s\b|h\b|days?\b|weeks?\b|percent|°|utc|gmt|[ap]m\b|[ap]\.m|"
    r"uhr\b|o['’]?clock|jan(?:uary)?\b|feb(?:ruary)?\b|mar(?:ch)?\b|apr(?:il)?\b|june?\b|july?\b|aug(?:ust)?\b|sept?(?:ember)?\b|"
    r"oct(?:ober)?\b|nov(?:ember)?\b|dec(?:ember)?\b|(?-i:CES?T|E[SD]T|P[SD]T|May \d)\b))"
)
_AFFECTED = r"(?:affected|involved|concerned|impacted|betroffen)"
NODE_NUMBERS_PATTERN = re.compile(
    rf"(?<!\d )\b(?:(?P<before>{_AFFECTED}) )?{_HOST_WORDS}"
    rf"(?: |(?P<link>(?: (?P<after>{_AFFECTED}|numbers?|numbered|n[or]s?\.?))?(?: ?[:=,(\[] ?| (?:are|from|between|von|zwischen|entre) | )))"
    rf"{_NUMBERS}{_NO_UNIT}",
    re.IGNORECASE,
)
_STEM_NUMBERS_PATTERN = re.compile(
    rf"(?<![\w.-])(?P<stem>[A-Za-z][A-Za-z0-9_-]{{0,60}}+)(?:: ?| (?:{_HOST_WORDS} )?){_NUMBERS}{_NO_UNIT}", re.IGNORECASE
)
_NUMBER_STEP_PATTERN = re.compile(r"([^\d#]{1,12})#?(\d{1,6})")
_RANGE_WORD_PATTERN = re.compile(r" ?(?:-|–|…|\.\.\.?|to|through|thru|until|till?|bis|à) ?", re.IGNORECASE)
_BETWEEN_PATTERN = re.compile(r"(?:between|zwischen|entre) $", re.IGNORECASE)
_DATE_PATTERN = re.compile(r"\d{1,2}/\d{1,2}/\d{4}|\d{4}-\d\d-\d\d")
_FRACTION_PATTERN = re.compile(r"(\d{1,6}) ?/ ?(\d{1,6})")
_STATUS_PATTERN = re.compile(
    r"\)?,? (?:are |is |still |not )?(?:up|down|ok|ready|healthy|idle|busy|alive|online|offline|available|reachable|responding|done|free)\b",
    re.IGNORECASE,
)
_OF_HOST_PATTERN = re.compile(r" (?:on|of|in|at|per|auf|von|sur|en|de)\b", re.IGNORECASE)


def parse_node_numbers(match: re.Match[str], host_index: HostIndex) -> list[str]:
    """Return the hosts of a `NODE_NUMBERS_PATTERN` match: `nodes 3-6`, `hosts 1, 3 and 5`."""
    steps = _NUMBER_STEP_PATTERN.findall(match["more"])
    if _counts_or_dates(match, steps, strict=bool(match["link"])):
        return []
    if match["link"] and not (steps and (match["first"].startswith("0") or match["before"] or match["after"])):
        return []
    return resolve_numbers(_expand_numbers(match["first"], steps, between=bool(_BETWEEN_PATTERN.search(match["link"] or ""))), host_index)


def iter_stem_numbers(text: str, host_index: HostIndex, taken_starts: Sequence[int]) -> Iterator[tuple[int, int, list[str]]]:
    """Yield start, end and hosts of `gpu 01 to 04` and `b200-r7 nodes 01, 02`. `taken_starts`: where other names start,
    sorted.
    """
    for match in _STEM_NUMBERS_PATTERN.finditer(text):
        stem = host_index.find_stem(match["stem"])
        steps = _NUMBER_STEP_PATTERN.findall(match["more"])
        if not stem or not steps or not match["first"].startswith("0") or _counts_or_dates(match, steps, strict=True):
            continue
        if NON_HOST_PATTERN.match(f"{stem}0") and (_OF_HOST_PATTERN.match(text, match.end()) or _has_nearby(taken_starts, match)):
            continue  # GPUs of a host
        numbers = _expand_numbers(match["first"], steps)[:MAX_RANGE_HOSTS]
        if host_index.find_host(f"{stem}{match['first']}"):
            yield match.start(), match.end(), [host_index.build_stem_name(stem, number) for number in numbers]


def resolve_numbers(numbers: Sequence[int], host_index: HostIndex) -> list[str]:
    """Return the hosts with these numbers, and names of unknown ones where all hosts are numbered in one way."""
    if len(numbers) > 1 and (hosts := host_index.find_row(numbers)):
        return hosts
    known_hosts = [host for number in numbers if (host := host_index.find_by_number(number))]
    if not known_hosts or len(numbers) == 1:
        return known_hosts
    return [name for number in numbers[:MAX_RANGE_HOSTS] if (name := host_index.find_by_number(number) or host_index.build_name(number))]


def _expand_numbers(first: str, steps: Sequence[tuple[str, str]], *, between: bool = False) -> list[int]:
    numbers = [int(first)]
    for step, number in steps:
        is_range = _RANGE_WORD_PATTERN.fullmatch(step) or (between and len(steps) == 1)
        spans = is_range and numbers[-1] < int(number) < numbers[-1] + MAX_RANGE_HOSTS
        numbers += range(numbers[-1] + 1, int(number) + 1) if spans else [int(number)]
    return numbers


def _counts_or_dates(match: re.Match[str], steps: Sequence[tuple[str, str]], *, strict: bool) -> bool:
    """Return whether the numbers are a date, or a share such as `7/8 up`. `strict`: any two numbers around a slash."""
    start = match.start("first")
    fraction = _FRACTION_PATTERN.match(match.string, start) if len(steps) == 1 else None
    if fraction and (strict or int(fraction[1]) == int(fraction[2])):
        return True
    is_share = fraction and int(fraction[1]) < int(fraction[2]) and _STATUS_PATTERN.match(match.string, match.end())
    return bool(is_share or _DATE_PATTERN.match(match.string, start))


def _has_nearby(starts: Sequence[int], match: re.Match[str]) -> bool:
    at = bisect_left(starts, match.start() - NEARBY_CHARS)
    return at < len(starts) and starts[at] < match.end() + NEARBY_CHARS
