"""Secrets over several lines: PEM keys with and without header, name and value pairs, YAML blocks."""

import re
from collections.abc import Iterator, Sequence

# Secrets over several lines: prefixed PEM keys, name and value pairs, YAML blocks.
#
# Changes lines in place; each is read a bounded number of times.

REDACTED = "[redacted]"
MAX_BLOCK_LINES = 400  # of one key or block
MAX_MANIFEST_DISTANCE = 60  # from a manifest's kind to its data
MAX_REACH_LINES = MAX_BLOCK_LINES + MAX_MANIFEST_DISTANCE  # from a line to the farthest one read because of it
_CONTINUATION_CHARS = frozenset(":|>-+")
_DIGIT_PATTERN = re.compile(r"\d")
_BEGIN_PATTERN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|^Private-Lines: \d")
_BODY_PATTERN = re.compile(
    r"""(?P<head>(?:^|.{0,400}?[^A-Za-z0-9+/=]))(?P<value>[A-Za-z0-9+/]{1,80}={0,2})(?:(?:\\r)?\\n)?["']?[ \t]{0,4}[,+;\\]?\s*$"""
)
_ABOVE_PATTERN = re.compile(r"(?:^|[^\w-])(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset): .{0,120}$")
_MAX_HEADER_LINES = 8  # between a key's BEGIN and its body: encryption headers and a blank line behind the prefix
_KEY_END_TEXTS = ("-----END", "Private-MAC")
_MIN_FULL_LINE_CHARS = 40  # full key lines have at least 64; shorter ones are the last


def redact_private_keys(lines: list[str]) -> None:
    """Redact private keys, also behind a common prefix or cut short."""
    for at in [at for at, line in enumerate(lines) if _BEGIN_PATTERN.search(line)]:
        first = _find_first_body_line(lines, at)
        for inside in range(first, min(first + MAX_BLOCK_LINES, len(lines))):
            match = _BODY_PATTERN.match(lines[inside])
            after = lines[inside + 1] if inside + 1 < len(lines) else ""
            if not match or not (len(match["value"]) >= _MIN_FULL_LINE_CHARS or any(end in after for end in _KEY_END_TEXTS)):
                break
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]


def _find_first_body_line(lines: list[str], at: int) -> int:
    prefix = lines[at].find("-----BEGIN")
    for inside in range(at + 1, min(at + 1 + _MAX_HEADER_LINES, len(lines))):
        if not (_ABOVE_PATTERN.search(lines[inside][:400]) or (prefix >= 0 and len(lines[inside].rstrip()) <= prefix)):
            return inside
    return at + 1


_NAME_PATTERN = re.compile(
    r"""(?:^|[\s{,"'-])["']?(?:name|key)["']?\s{0,2}[:=]\s{0,2}["']?[\w.-]{0,60}(?:pass|pwd|secret|token|credential|api_?key|_key\b|_auth\b|_pat\b)[\w.-]{0,40}""",
    re.IGNORECASE,
)
_ITS_VALUE_PATTERN = re.compile(
    r"""(?P<head>(?:^|[\s{,"'])["']?value["']?\s{0,2}[:=]\s{0,2})(?P<quote>["']?)(?P<value>(?:[^"'\\\n,}]|\\.){3,4096})""", re.IGNORECASE
)


def may_spread(lowered: str) -> bool:
    """Return whether a masked line may concern others."""
    return (
        _may_name(lowered)
        or lowered.rstrip()[-1:] in _CONTINUATION_CHARS
        or "kind" in lowered
        or "assw" in lowered
        or "assphrase" in lowered
    )


def redact_spread(lines: list[str], at: int, lowered: str) -> None:
    """Redact lines that belong to one naming a secret; `lowered` is its original masked text."""
    if _may_name(lowered):
        _redact_name_value_pair(lines, at)
    if lowered.rstrip()[-1:] in _CONTINUATION_CHARS:
        _redact_yaml_below(lines, at)
        _redact_password_below(lines, at)
        _redact_cloud_init_users(lines, at)
    if "assw" in lowered or "assphrase" in lowered:
        _redact_expect_answer(lines, at)
    if "kind" in lowered and _KIND_PATTERN.match(lines[at]):
        _redact_secret_manifest(lines, at)
    if "kind" in lowered and _JSON_KIND_PATTERN.search(lines[at]):
        lines[at] = _IN_ONE_LINE_PATTERN.sub(lambda found: f"{found[1]}{_JSON_ENTRY_PATTERN.sub(_redact_entry, found[2])}}}", lines[at])


def _may_name(lowered: str) -> bool:
    return ("name" in lowered or "key" in lowered) and (":" in lowered or "=" in lowered)


def _redact_name_value_pair(lines: list[str], at: int) -> None:
    """`name: DB_PASSWORD` with `value:` in the same or an adjacent line, as in container environments."""
    if not _NAME_PATTERN.search(lines[at]):
        return
    for value_line in (at, at + 1, at + 2, at - 1) if "valueFrom" in "".join(lines[at + 1 : at + 2]) else (at, at + 1, at - 1):
        if (
            0 <= value_line < len(lines)
            and (value_line == at or not _OTHER_NAME_PATTERN.search(lines[value_line]))
            and (match := _ITS_VALUE_PATTERN.search(lines[value_line]))
        ):
            if not match["value"].strip().startswith(("[", "$", "*")):
                lines[value_line] = lines[value_line][: match.start("value")] + REDACTED + lines[value_line][match.end("value") :]
            return


_OTHER_NAME_PATTERN = re.compile(r"""["']?\bname["']?\s{0,2}[:=]""", re.IGNORECASE)
_OPENS_PATTERN = re.compile(
    r"""^(?P<indent>[ \t]*)(?:-[ \t]+)?["']?[\w.-]{0,60}(?:passw(?:or)?d|passphrase|secret|token|api_?key|private_?key|credential)s?"""
    r"""[\w.-]{0,20}["']?:[ \t]*(?:[|>][+-]?\d?)?[ \t\r]*$""",
    re.IGNORECASE,
)
_ITEM_PATTERN = re.compile(r"""^(?P<indent>[ \t]*)(?P<dash>-[ \t]+)?(?P<value>["']?[^\s:"']{6,4096}["']?)[ \t\r]*$""")
_FOLD_CHARS = frozenset("|>+-")
# a name and value below `credentials:`; harmless names and numbers with units are excluded
_MEMBER_PATTERN = re.compile(
    r"""^(?P<indent>[ \t]*)(?P<dash>-[ \t]+)?(?![\w.-]{0,60}(?:name|user|type|id|path|file|url|host|ref|key|version|time|date|at|count|limit|mode))"""
    r"""["']?[\w.-]{1,60}["']?:[ \t]+(?P<value>["']?(?=[^\s"']{0,80}\d)(?=[^\s"']{0,80}[A-Za-z])(?!\d[\d.]{0,12}[A-Za-z%]{1,4}["']?[ \t\r]*$)"""
    r"""[^\s:/\[{"'$*&!<(][^\s:/"'<(]{5,4096}["']?)[ \t\r]*$""",
    re.IGNORECASE,
)


def _redact_yaml_below(lines: list[str], at: int) -> None:
    """A block, folded text or list."""
    if not (opened := _OPENS_PATTERN.match(lines[at])):
        return
    any_text = lines[at].rstrip()[-1:] in _FOLD_CHARS
    for inside in range(at + 1, min(at + 1 + MAX_BLOCK_LINES, len(lines))):
        match = _ITEM_PATTERN.match(lines[inside]) or _MEMBER_PATTERN.match(lines[inside])
        if not match or len(match["indent"]) + bool(match["dash"]) <= len(opened["indent"]):
            break
        if not (any_text or _DIGIT_PATTERN.search(match["value"])):
            break
        lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]


_ASKS_PATTERN = re.compile(
    r"""\b(?:password|passwd|passphrase|passwort|kennwort|mot de passe|api[ _-]?key|(?:secret|access)[ _-]?key|token)\b[^:\n]{0,60}:[ \t\r]*$""",
    re.IGNORECASE,
)
_ALONE_PATTERN = re.compile(
    r"""^[ \t>*`"'-]{0,12}(?P<value>(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])(?!\[)[^\s"'`:=/]{6,200})[ \t`"'*\r]*$"""
)
_USERS_PATTERN = re.compile(r"^[ \t]*(?:-[ \t]+)?chpasswd:[ \t\r]*$")
_USER_PATTERN = re.compile(r"^(?P<indent>[ \t]+)(?:-[ \t]*)?[\w-]{1,32}:(?P<value>[^\s\[]\S{2,200})[ \t\r]*$")
_MAX_USERS = 20


def _redact_password_below(lines: list[str], at: int) -> None:
    """Alone on a line below its announcement."""
    if not _ASKS_PATTERN.search(lines[at][-200:]):
        return
    for inside in range(at + 1, min(at + 3, len(lines))):
        if match := _ALONE_PATTERN.match(lines[inside]):
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]
        if lines[inside].strip():
            return


def _redact_cloud_init_users(lines: list[str], at: int) -> None:
    if not _USERS_PATTERN.match(lines[at]):
        return
    for inside in range(at + 1, min(at + 1 + _MAX_USERS, len(lines))):
        if not lines[inside].startswith((" ", "\t", "-")):
            return
        if match := _USER_PATTERN.match(lines[inside]):
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]


_SENT_PATTERN = re.compile(
    r"""\bsend(?:line)?\b[ \t(]{1,4}(?:--[ \t]{1,4})?[bru]?(?P<quote>["'])(?P<value>(?!\$|\[)[^"'\n\\]{1,200})(?P<ends>(?:\\[rn])*)(?P=quote)"""
)


def _redact_expect_answer(lines: list[str], at: int) -> None:
    """Sent to a password prompt."""
    for inside in range(at + 1, min(at + 4, len(lines))):
        if "send" not in lines[inside]:
            continue
        match = _SENT_PATTERN.search(lines[inside])
        if match and (match["ends"] or "sendline" in match[0]):
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]
        return


_KIND_PATTERN = re.compile(r"""^[ \t-]*["']?kind["']?:[ \t]*["']?Secret\b""", re.IGNORECASE)
_DATA_PATTERN = re.compile(r"""^(?P<indent>[ \t]*)(?:(?:data|stringData):|"(?:data|stringData)":[ \t]*\{)[ \t\r]*$""")
_ENTRY_PATTERN = re.compile(
    r"""^(?P<head>(?P<indent>[ \t]+)["']?[\w.-]{1,253}["']?:[ \t]*)(?P<value>"[^"\n]{0,16384}"|\S.{0,16384})(?P<ends>,?)[ \t\r]*$"""
)
_IN_ONE_LINE_PATTERN = re.compile(r"""("(?:data|stringData)"[ \t]*:[ \t]*\{)([^{}\n]{2,65536})\}""")
_JSON_ENTRY_PATTERN = re.compile(r"""("[\w.-]{1,253}"[ \t]*:[ \t]*)"[^"\n]{0,16384}\"""")
_JSON_KIND_PATTERN = re.compile(r"""["']kind["'][ \t]*:[ \t]*["']Secret["']""")


def _redact_entry(found: re.Match[str]) -> str:
    return f'{found[1]}"{REDACTED}"'


def _redact_secret_manifest(lines: list[str], at: int) -> None:
    """`data` may precede `kind`."""
    for start, indent in _iter_data_starts(lines, at):
        for inside in range(start + 1, min(start + 1 + MAX_BLOCK_LINES, len(lines))):
            match = _ENTRY_PATTERN.match(lines[inside])
            if not match or len(match["indent"]) <= indent:
                break
            quote = '"' if match["value"].startswith('"') else ""
            lines[inside] = f"{match['head']}{quote}{REDACTED}{quote}{match['ends'] if quote else ''}"


def _iter_data_starts(lines: list[str], at: int) -> Iterator[tuple[int, int]]:
    for neighbour in range(max(0, at - MAX_MANIFEST_DISTANCE), min(len(lines), at + MAX_MANIFEST_DISTANCE)):
        if match := _DATA_PATTERN.match(lines[neighbour]):
            yield neighbour, len(match["indent"])


# Lines of a PEM key without header, recognised by length and randomness. Lines under a public header stay.
#
# Changes lines in place; each is read a bounded number of times.

KEY_LINE_SIZES = frozenset({64, 70, 76})  # full line lengths of PEM, OpenSSH and MIME
_TRAILING_CHARS = "\"',;)]} \t\r\\="
_PARTS_PATTERN = re.compile(r"[\s\"'|>\]\[({]")
_WORD_PATTERN = re.compile(r"[A-Za-z0-9+/]+")
_CHANGES_PATTERN = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_HEX_CHARS = frozenset("0123456789abcdefABCDEF")
_PUBLIC_PATTERN = re.compile(r"-{4,5} ?BEGIN (?![^-]{0,40}PRIVATE)[A-Z0-9 ]{1,60}-{4,5}")
MAX_HEADER_DISTANCE = 6  # lines from a header to the first body line
MIN_LAST_LINE_CHARS = 8  # minimum length of a key's last line
# Of a line of random base64: distinct characters, letters of each case, and changes of character class. All of 100,000
# random lines have more; paths, digests and identifiers have fewer.
MIN_DISTINCT_CHARS = 26
MIN_CHARS_PER_CASE = 9
MIN_CHANGES = 20


def may_be_key_body(masked: str) -> bool:
    """Test a masked line. Cheap for other lines."""
    tail = masked[-100:].rstrip(_TRAILING_CHARS)
    if len(tail) < 64 or " " in tail[-64:] or not (tail[-1].isalnum() or tail[-1] in "+/"):
        return False
    return _measure_last_word(tail) in KEY_LINE_SIZES and not _HEX_CHARS.issuperset(tail[-64:])


def redact_key_bodies(lines: list[str], some: Sequence[int]) -> None:
    """Redact the keys that these lines belong to."""
    redacted_to = -1
    for at in some:
        if at <= redacted_to or not _is_random(_find_base64_word(lines[at])):
            continue
        first = at
        while first > max(redacted_to + 1, 0) and _has_key_shape(lines[first - 1]):
            first -= 1
        redacted_to = at
        while redacted_to + 1 < len(lines) and _has_key_shape(lines[redacted_to + 1]):
            redacted_to += 1
        if (redacted_to > first or _is_alone_on_line(lines[at])) and not _has_public_header(lines, first):
            _redact_span(lines, first, redacted_to)


def _redact_span(lines: list[str], first: int, last: int) -> None:
    after = lines[last + 1] if last + 1 < len(lines) else ""
    word = _find_base64_word(after)
    ends = MIN_LAST_LINE_CHARS <= len(word) < 76 and (after.rstrip("\"', \t\r").endswith("=") or _is_mixed(word))
    for at in range(first, last + 1 + ends):
        start = lines[at].rfind(_find_base64_word(lines[at]))
        rest = lines[at][start + len(_find_base64_word(lines[at])) :].lstrip("=")
        lines[at] = f"{lines[at][:start]}{REDACTED}{rest}"


def _find_base64_word(line: str) -> str:
    """The last word if pure base64, else ""."""
    last_part = _PARTS_PATTERN.split(line[-120:].rstrip(_TRAILING_CHARS))[-1]
    return last_part if _WORD_PATTERN.fullmatch(last_part) else ""


def _measure_last_word(said: str) -> int:
    return len(_PARTS_PATTERN.split(said)[-1])


def _has_key_shape(line: str) -> bool:
    word = _find_base64_word(line)
    return len(word) in KEY_LINE_SIZES and not _HEX_CHARS.issuperset(word)


def _is_alone_on_line(line: str) -> bool:
    return len(line.strip(" \t\r\"',+;\\=")) in KEY_LINE_SIZES


def _is_random(word: str) -> bool:
    if len(word) not in KEY_LINE_SIZES or len(set(word)) < MIN_DISTINCT_CHARS or len(_CHANGES_PATTERN.findall(word)) < MIN_CHANGES:
        return False
    return sum(map(str.isupper, word)) >= MIN_CHARS_PER_CASE and sum(map(str.islower, word)) >= MIN_CHARS_PER_CASE


def _is_mixed(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isupper, word)) and any(map(str.islower, word))


def _has_public_header(lines: Sequence[str], first: int) -> bool:
    """A certificate, public key or signature."""
    return any(_PUBLIC_PATTERN.search(line[-200:]) for line in lines[max(0, first - MAX_HEADER_DISTANCE) : first])
