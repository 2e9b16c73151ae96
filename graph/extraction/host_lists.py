"""Parse lists and ranges of hosts as people write them: `gpu-001..004`, `b200-r7-03/07/12`, `gpu-021 bis gpu-024`,
`node-a[1-4]`. Pure.

A list starts with a host name and continues with numbers or endings of host names that count nothing else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from graph.extraction.host_index import NON_HOST_PATTERN, HostIndex, get_digits, get_stem, strip_separators
from tools.inventory.host_ranges import BadRange, expand_host_range

MAX_RANGE_HOSTS = 512  # Hosts of one range (a longer one is not a range)
MAX_LIST_MEMBERS = 64  # members of one list
MAX_NAME_CHARS = 253  # characters of a name
HOST_NAME_PATTERN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*+")
BRACKET_RANGE_PATTERN = re.compile(
    r"(?<![\w.-])[A-Za-z][A-Za-z0-9._-]{0,80}"
    r"(?:\[[A-Za-z0-9][A-Za-z0-9,. :;–…-]{0,200}\]|\{[A-Za-z0-9][A-Za-z0-9,. :;–…-]{0,200}\}|\([0-9][0-9,.| –…-]{0,200}\))"
    r"(?:[A-Za-z0-9._-]{0,80}(?:\[[A-Za-z0-9,. –…-]{1,200}\]|\{[A-Za-z0-9,. –…-]{1,200}\})){0,2}[A-Za-z0-9.-]{0,80}"
)
# Words between names in a list or range.
LIST_WORDS = frozenset(
    """and or und oder et ou y o en e plus as well to through thru until till til bis zu hasta a al à tot met up including between
    from zwischen von entre de du desde van tussen""".split()  # noqa: SIM905 - a line of words reads better than a column
)
_JOIN_WORDS_PATTERN = r"(?:and|or|und|oder|et|ou|y|o|en|e|plus|as well as)"
_RANGE_LINK_PATTERN = re.compile(
    r"[`*'\"<>_]{0,2}(?:,? {0,2}(?:\.{2,3}|…),? {0,2}| {0,2}(?:[-–—−]{1,2}>?|→|~|=>|:(?=[A-Za-z]|0\d)) {0,2}| {1,2}(?:up |all the way )?"
    r"(?:to(?: and including)?|(?:and )?through|thru|until|till?|bis(?: zu|(?: ein(?:schließlich|schliesslich)| inkl\.?| inklusive))?|hasta|"
    r"al?|à|jusqu['’]à|tot(?: en met)?|t/m) {1,2})(?:(?:hosts?|nodes?) )?",
    re.IGNORECASE,
)
_LIST_LINK_PATTERN = re.compile(
    rf"[`*'\"<>_]{{0,2}}(?: {{0,2}}[,;/|&+] {{0,2}}(?:(?:and|or|und|oder|&) {{1,2}})?(?:also )?| {{1,2}}{_JOIN_WORDS_PATTERN} {{1,2}}(?:also )?)",
    re.IGNORECASE,
)
_BLANK_LINK_PATTERN = re.compile(r" (?=0\d)")
_BETWEEN_PATTERN = re.compile(r"(?:between|zwischen|entre|tussen) (?:(?:the )?(?:hosts?|nodes?) )?[`*'\"]{0,2}$", re.IGNORECASE)
_BETWEEN_AND_PATTERN = re.compile(r"[`*'\"]{0,2} (?:and|und|et|y|en) [`*'\"]{0,2}", re.IGNORECASE)
# After these words `from gpu-001 to gpu-004` means two endpoints, not a range.
_TWO_ENDS_PATTERN = re.compile(
    r"\b(?:link|traffic|bandwidth|throughput|nccl|ping|pings|connect|connection|connectivity|latency|rdma|ib|ib_\w+|network|cable|path|route|"
    r"communication|communicate|p2p|transfer|copy|copies|scp|rsync|ssh|perftest|iperf3?|all-?reduce|packets?|move|moved|migrate|migrated|"
    r"difference|differences|differ|compare|compared|diff|switch|swap|swapped)\b",
    re.IGNORECASE,
)
_MEMBER_NUMBER_PATTERN = re.compile(r"(?:-(?=\d\d))?(\d{1,6})(?![A-Za-z0-9_%°])")
# After a number: it counts something and names no host.
_UNIT_PATTERN = re.compile(
    r" ?(?:%|°|percent\b|[kmgt]i?b(?:it|ps|/s)?\b|gbit|[cfwvms]\b|ms\b|mhz\b|ghz\b|of\b|x\b|out\b|more\b|times\b|am\b|pm\b|h\b|min\b|sec\b|"
    r"gpu\b|rank\b|hour\b|minute\b|second\b|day\b|week\b|step\b|epoch\b|watt\b|volt\b|"
    r"degree|(?!is |was |has |does |hangs |fails |crashes |dies |looks |shows |keeps |always |runs )[a-z]{2,30}s\b)",
    re.IGNORECASE,
)
_MONTH_PATTERN = re.compile(r" ?(?:jan|feb|mar|apr|may\b|jun|jul|aug|sep|oct|nov|dec)", re.IGNORECASE)
_CONTINUATION_PATTERN = re.compile(r"[/:.-]\d")
_NAME_SUFFIX_PATTERN = re.compile(r"[A-Za-z]{1,12}\d{1,6}")
_BRACKET_PART_PATTERN = re.compile(r"([A-Za-z]{0,20})(\d{0,9})(?:-([A-Za-z]{0,20})(\d{1,9}))?")


@dataclass(slots=True)
class HostList:
    """Names in text order, and the list's end in the text."""

    names: list[str]
    end: int


def parse_host_list(text: str, match: re.Match[str], host_index: HostIndex) -> HostList | None:
    """Return the list that starts with this name (a `HOST_NAME_PATTERN` match), or None if it names no host."""
    raw = match[0].rstrip("._-")
    if len(raw) > MAX_NAME_CHARS:
        return None
    host_list = HostList([raw], match.start() + len(raw))
    if not host_index.has_spelling(raw) and (dashed := _parse_dashed_range(raw, host_index)):
        host_list.names = dashed
    elif not (host_index.find_host(raw) or host_index.looks_like_host(raw)):
        return None
    if host_index.is_numbered(host_list.names[0]):
        _extend_list(text, match.start(), host_list, host_index, ranged=len(host_list.names) > 1)
    return host_list


def _is_followed_by_unit(text: str, at: int) -> bool:
    return bool(_UNIT_PATTERN.match(text, at))


def _parse_dashed_range(raw: str, host_index: HostIndex) -> list[str]:
    """Return the hosts of `gpu-001-004`, `node-a1-a4`, `gpu001-gpu004`. `gpu-2-4` is more often a name."""
    for at in [place for place, letter in enumerate(raw) if letter == "-"][:12]:
        first, last = raw[:at], raw[at + 1 :].lstrip("-")
        if not host_index.is_numbered(first) or (last.isdigit() and host_index.find_host(raw)):
            continue
        other = _replace_number(first, last) if last.isdigit() else _complete_name(first, last, host_index)
        if not other or not get_digits(other):
            continue
        number = get_digits(first)
        is_padded = len(last) == len(number) > 1 and host_index.has_spelling(first)
        sure = not last.isdigit() or is_padded or (host_index.has_spelling(first) and host_index.find_host(other))
        likely = host_index.find_host(first) and host_index.find_host(other) and (len(last) > 1 or not NON_HOST_PATTERN.match(first))
        if (sure or likely) and (names := _expand_span(first, other, host_index)):
            return names
    return []


def _extend_list(text: str, start: int, found: HostList, host_index: HostIndex, *, ranged: bool) -> None:
    last = found.names[-1]
    ends = bool(_TWO_ENDS_PATTERN.search(text[max(0, start - 60) : start].rpartition("\n")[2]))
    checkpoints = [(len(found.names), found.end)]  # fallback if the rest is a date or an address
    between = not ends and _BETWEEN_PATTERN.search(text[max(0, start - 40) : start])
    both = _BETWEEN_AND_PATTERN.match(text, found.end) if between else None
    member = _parse_member(text, both.end(), last, host_index) if both else None
    if member and (names := _expand_span(last, member[0], host_index)):
        found.names, found.end = names, member[1]
        last, ranged = names[-1], True
    for _ in range(MAX_LIST_MEMBERS):
        link = None if ranged else _RANGE_LINK_PATTERN.match(text, found.end)
        if link and (member := _parse_member(text, link.end(), last, host_index, tight=not link[0].startswith(" "))):
            names = [last, member[0]] if ends and link[0].startswith(" ") else _expand_span(last, member[0], host_index)
            if names:
                found.names[-1:] = names
                found.end, last, ranged = member[1], member[0], True
                continue
        link = _LIST_LINK_PATTERN.match(text, found.end) or _BLANK_LINK_PATTERN.match(text, found.end)
        member = _parse_member(text, link.end(), last, host_index, short=True) if link else None
        if link is None or member is None:
            break
        if not (link[0] == "/" and _CONTINUATION_PATTERN.match(text, found.end)):
            checkpoints = [(len(found.names), found.end)]
        found.names.append(member[0])
        found.end, last, ranged = member[1], member[0], False
    if _CONTINUATION_PATTERN.match(text, found.end) and len(found.names) > checkpoints[0][0]:
        size, found.end = checkpoints[0]
        del found.names[size:]


def _parse_member(
    text: str, at: int, like: str, host_index: HostIndex, *, tight: bool = True, short: bool = False
) -> tuple[str, int] | None:
    """Return the host name here and its end: a full name, or an ending like the previous one's (`short`: only that)."""
    at += len(text[at : at + 2]) - len(text[at : at + 2].lstrip("`*'\"<_"))
    if digits := _MEMBER_NUMBER_PATTERN.match(text, at):
        return _parse_numbered_member(text, digits, like, host_index, tight=tight)
    if (match := HOST_NAME_PATTERN.match(text, at)) is None:
        return None
    raw = match[0].rstrip("._-")
    if raw.isdigit():
        return None
    name = _complete_name(like, raw, host_index, short=short)
    return (name, at + len(raw)) if name else None


def _parse_numbered_member(text: str, digits: re.Match[str], like: str, host_index: HostIndex, *, tight: bool) -> tuple[str, int] | None:
    number, width = digits[1], len(get_digits(like))
    name, end = _replace_number(like, number.zfill(width) if get_digits(like).startswith("0") else number), digits.end()
    padded = number.startswith("0")
    if (
        not name
        or re.match(r":\d|\.[\da-z]|/[A-Za-z]", text[end : end + 2])
        or _MONTH_PATTERN.match(text, end)
        or (not padded and _is_followed_by_unit(text, end))
    ):
        return None
    if padded and get_digits(like).startswith("0") and len(number) != width:
        return None  # the day in a date
    is_padded = len(number) == width and (padded or width > 1)
    natural = tight and width <= len(number) and not get_digits(like).startswith("0")
    return (name, end) if is_padded or natural or host_index.find_host(name) else None


def _complete_name(like: str, raw: str, host_index: HostIndex, *, short: bool = False) -> str:
    """Complete a name from another host's: `a4` after `node-a1`, `r7-04` after `b200-r7-01`."""
    before, _, domain = like.partition(".")
    if strip_separators(get_stem(raw)) == strip_separators(get_stem(like)) and get_stem(raw):
        return "" if short else _replace_number(like, get_digits(raw))
    parts, own = before.split("-"), raw.partition(".")[0].split("-")
    candidates = ["-".join((*parts[: -len(own)], *own))] if len(own) < len(parts) else []
    if _NAME_SUFFIX_PATTERN.fullmatch(raw) and (end := re.search(r"[A-Za-z]{1,12}\d{1,6}$", before)):
        candidates.append(f"{before[: end.start()]}{raw}")
    for name in candidates:
        full_name = f"{name}.{domain}" if domain else name
        if get_digits(name) and (host_index.find_host(full_name) or (not short and get_stem(name) == get_stem(like))):
            return full_name
    return ""


def _replace_number(like: str, number: str) -> str:
    before, dot, domain = like.partition(".")
    own = get_digits(before)
    return f"{before[: -len(own)]}{number}{dot}{domain}" if own and number else ""


def _expand_span(first: str, last: str, host_index: HostIndex) -> list[str]:
    if get_stem(first) != get_stem(last) or not get_digits(first) or not get_digits(last):
        return []
    ends = sorted((get_digits(first), get_digits(last)), key=int)
    low, high = map(int, ends)
    if high - low >= MAX_RANGE_HOSTS:
        return []
    return keep_if_hosts([_replace_number(first, str(number).zfill(len(ends[0]))) for number in range(low, high + 1)], host_index)


def keep_if_hosts(names: list[str], host_index: HostIndex) -> list[str]:
    """Return the names if one is known or numbered like a known host, else none."""
    real = len(names) <= MAX_RANGE_HOSTS and any(map(host_index.is_numbered, names))
    return names if real else []


def parse_bracket_range(text: str, host_index: HostIndex) -> list[str]:
    """Return the hosts of `gpu-[001-003,007]` or `node-{a1..a4}`; an unreadable range of a known stem as it is."""
    name, inside = text[: min(at for sign in "[{(" if (at := text.find(sign)) >= 0)], ""
    plain = text.translate(str.maketrans("{}();|–…", "[][],,--")).replace(" ", "")
    plain = plain.replace("...", "-").replace("..", "-").rstrip(".-")
    inside = plain[len(name) + 1 :].partition("]")[0]
    if host_index.find_host(name) and (inside.isdigit() or text[len(name)] == "("):
        return [name]  # followed by a process or GPU number
    try:
        names = [one for choice in _split_bracket_choices(plain) for one in expand_host_range(choice)]
    except BadRange:
        names = []
    is_known_stem = name.lower() in host_index.stems
    return keep_if_hosts(names, host_index) or ([plain] if is_known_stem and any(letter.isdigit() for letter in inside) else [])


def _split_bracket_choices(text: str) -> Iterator[str]:
    """Move letters out of brackets: `node-[a1-a4,b2]` becomes `node-a[1-4]` and `node-b[2]`."""
    pieces = re.split(r"\[([^\]]*)\]", text)
    rows = [list(_split_bracket_parts(piece)) if at % 2 else [piece] for at, piece in enumerate(pieces)]
    if len(rows) > 7:
        raise BadRange(text)
    return ("".join(row) for row in product(*rows))


def _split_bracket_parts(body: str) -> Iterator[str]:
    if not any(letter.isalpha() for letter in body):
        yield f"[{body}]"
        return
    for part in body.split(",")[:MAX_LIST_MEMBERS]:
        match = _BRACKET_PART_PATTERN.fullmatch(part)
        if match is None or (match[3] or "") not in ("", match[1]) or (match[4] and not match[2]):
            raise BadRange(part)
        last = f"-{match[4]}" if match[4] else ""
        yield f"{match[1]}[{match[2]}{last}]" if match[2] else match[1]
