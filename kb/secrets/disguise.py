"""Secrets under a disguise: characters that hide them from patterns, and escaped texts such as JSON in JSON."""

import re
import unicodedata
from array import array
from collections.abc import Callable, Sequence

# Characters that hide a secret from patterns, not from people: zero-width, terminal colours, look-alikes.

_CYRILLIC = dict(zip("асԁеһіјкӏморԛѕтуԝхАВЕІЈКМНОРЅТУХ", "acdehijklmopqstywxABEIJKMHOPSTYX", strict=True))
_GREEK = dict(zip("αικνορτυ", "aikvoptu", strict=True))
_LOOKALIKES = _CYRILLIC | _GREEK
PASSWORD_WORDS = ("пароль", "парола", "密码", "密碼", "口令", "パスワード", "비밀번호", "contraseña")  # "password" in other languages
_CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f"
_CONTROLS = bytes([*range(9), 11, 12, *range(14, 27), *range(28, 32), 127])
_BLANK = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_NO_WIDTH = f"{_CONTROL}\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
_ESCAPE = r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e|#033|\^\[)\[[\d;]{0,20}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)"
# URL, HTML and JSON spellings of the signs between a name and its value
_SPELLED_SIGNS = {"%3d": "=", "%3a": ":", "%22": '"', "%27": "'", "%26": "&", "&quot;": '"', "&#34;": '"', "&#x22;": '"', "&apos;": "'", "&#39;": "'", "&#x27;": "'",
          "\\u003d": "=", "\\u003a": ":", "\\u0022": '"', "\\u0027": "'", "\\u0026": "&"}  # fmt: skip
_PIECE_PATTERN = re.compile(
    rf"(?=[^ -\"$'-\[\]_-~\t\n\r]|contraseñ)(?:(?P<word>{'|'.join(PASSWORD_WORDS)})|(?P<gone>{_ESCAPE}|[{_NO_WIDTH}]|\\u200[bcdBCD]|\\ufeff)"
    rf"|(?P<wide>[\uff01-\uff5e\U0001d400-\U0001d7ff])"
    rf"|(?P<like>[{''.join(_LOOKALIKES)}])|(?P<blank>[{_BLANK}])|(?P<sign>(?=[%&\\])(?i:{'|'.join(map(re.escape, _SPELLED_SIGNS))})))"
)
_STARTS_PATTERN = re.compile(
    rf"[\x1b{_NO_WIDTH}{_BLANK}\uff01-\uff5e\U0001d400-\U0001d7ff{''.join(_LOOKALIKES)}{''.join(word[0] for word in PASSWORD_WORDS)}ñ]"
)
_SPELLED_ESCAPES = ("\\u001", "\\x1", "\\033[", "\\e[", "\\u200", "\\ufeff", "\\u003", "\\u002")
_WRITTEN_SIGNS = ("%3d", "%3D", "%3a", "%3A", "%22", "&quot;", "&#3", "&#x2", "&apos;")


def may_hide(text: str) -> bool:
    """Return whether a disguise is possible. Cheap for plain ASCII."""
    return _has_written_signs(text) or _has_displayed_disguise(text)


def select_hiding_test(block: str) -> Callable[[str], bool] | None:
    """Return the cheapest sufficient per-line test; None if no line can hide anything."""
    if _has_written_signs(block):
        return may_hide
    return _has_displayed_disguise if _has_displayed_disguise(block) else None


def _has_written_signs(text: str) -> bool:
    """Spelled signs, or characters that terminals do not show."""
    if ("%3" in text or "%2" in text or "&" in text) and any(sign in text for sign in _WRITTEN_SIGNS):
        return True
    if text.isprintable():
        return False
    encoded = text.encode("utf-8", "replace")
    return len(encoded.translate(None, _CONTROLS)) != len(encoded)


def _has_displayed_disguise(text: str) -> bool:
    if "\x1b" in text or "^[[" in text or "#033[" in text or ("\\" in text and any(spelled in text for spelled in _SPELLED_ESCAPES)):
        return True
    return not text.isascii() and any(not line.isascii() and _STARTS_PATTERN.search(line) for line in text.split("\n"))


def redact_disguised(line: str, clean: Callable[[str], str]) -> str:
    """Redact what `clean` finds in the undisguised line."""
    plain, places = _read_plainly(line)
    if plain == line:
        return line
    redacted = clean(plain)
    return line if redacted == plain else apply_redactions(line, plain, places, redacted)


_GONE_PATTERN = re.compile(r"\[redacted[^\]\n]{0,60}\]")


def apply_redactions(line: str, plain: str, places: Sequence[int], said: str) -> str:
    """Transfer redactions from the plain reading to the line.

    `places` maps `plain`'s characters and end to the line. Kept parts of `said` occur in `plain` in order; the first
    occurrence is safe, because the result never shows more than `said`.
    """
    kept_pieces, marks = _GONE_PATTERN.split(said), _GONE_PATTERN.findall(said)
    parts: list[str] = []
    at = 0
    for number, piece in enumerate(kept_pieces):
        start = len(plain) - len(piece) if number and number == len(marks) else plain.find(piece, at)
        if start < at or not plain.startswith(piece, start) or (not number and start):
            return _replace_changed_part(line, plain, places, said)
        end = len(line) if number == len(marks) else places[start + len(piece)]
        parts += (marks[number - 1] if number else "", line[places[start] if number else 0 : end])
        at = start + len(piece)
    return "".join(parts)


def _replace_changed_part(line: str, plain: str, places: Sequence[int], said: str) -> str:
    """If more changed: replace all between the first and last change by its plain reading."""
    same = min(len(plain), len(said))
    head = next((at for at in range(same) if plain[at] != said[at]), same)
    tail = next((at for at in range(same - head) if plain[-1 - at] != said[-1 - at]), same - head)
    between = said[head : len(said) - tail].replace("\n", "\\n")
    return f"{line[: places[head]]}{between}{line[places[len(plain) - tail] :]}"


def _read_plainly(line: str) -> tuple[str, list[int]]:
    """Return the undisguised line and each character's position."""
    parts: list[str] = []
    places: list[int] = []
    at = 0
    for match in _PIECE_PATTERN.finditer(line):
        put = _read_character(match)
        parts += (line[at : match.start()], put)
        places += range(at, match.start())
        places += [match.start()] * len(put)
        at = match.end()
    parts.append(line[at:])
    places += range(at, len(line) + 1)
    return "".join(parts), places


def _read_character(found: re.Match[str]) -> str:
    if found["word"]:
        return "password"
    if found["like"]:
        return _LOOKALIKES[found["like"]]
    if found["sign"]:
        return _SPELLED_SIGNS[found["sign"].lower()]
    if found["blank"]:
        return " "
    return unicodedata.normalize("NFKC", found["wide"]) if found["wide"] else ""


# Secrets in escaped texts, such as JSON in JSON, decoded level by level.

MAX_ESCAPE_LEVELS = 4  # JSON in JSON in JSON, quoted by a log
_ESCAPED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPE_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_CODED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_BACKSLASH_MARK = "\x01"


def has_escapes(text: str) -> bool:
    return "\\" in text


def unescape_once(text: str) -> str:
    """Decode one level, fast and without positions."""
    if _BACKSLASH_MARK in text:
        return _unescape_with_places(text)[0]
    text = text.replace("\\\\", _BACKSLASH_MARK)
    if "\\u" in text or "\\x" in text:
        text = _CODED_PATTERN.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    for sign, means in _ESCAPE_MEANINGS.items():
        text = text.replace(f"\\{sign}", means)
    return text.replace("\\", "").replace(_BACKSLASH_MARK, "\\")


def redact_escaped(line: str, clean: Callable[[str], str]) -> str:
    """Redact what `clean` finds at any level; keep all else as written."""
    level, depth, plain = 0, 0, line
    places: Sequence[int] = range(len(line) + 1)
    while level < MAX_ESCAPE_LEVELS:
        level += 1
        while depth < level:
            before = plain
            plain, further = _unescape_with_places(plain)
            places = array("q", (places[at] for at in further))
            depth += 1
            if plain == before:  # a backslash that escapes nothing
                return line
        redacted = clean(plain)
        if redacted != plain:
            line = apply_redactions(line, plain, places, redacted)
            depth, plain, places = 0, line, range(len(line) + 1)
        elif not has_escapes(plain):
            break
    return line


def _unescape_with_places(text: str) -> tuple[str, Sequence[int]]:
    parts: list[str] = []
    places = array("q")
    at = 0
    for match in _ESCAPED_PATTERN.finditer(text):
        code, sign = match[1] or match[2], match[3]
        parts += (text[at : match.start()], chr(int(code, 16)) if code else _ESCAPE_MEANINGS.get(sign, sign))
        places.extend(range(at, match.start()))
        places.append(match.start())
        at = match.end()
    parts.append(text[at:])
    places.extend(range(at, len(text) + 1))
    return "".join(parts), places
