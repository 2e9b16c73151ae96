"""Undo disguises that hide a secret from patterns but not from people: zero-width characters, colours, look-alikes."""

import re
import unicodedata
from collections.abc import Callable, Sequence

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
_GONE_PATTERN = re.compile(r"\[redacted[^\]\n]{0,60}\]")


def may_hide(text: str) -> bool:
    """Return whether a disguise is possible. Cheap for plain ASCII."""
    return _has_written_signs(text) or _has_displayed_disguise(text)


def select_hiding_test(block: str) -> Callable[[str], bool] | None:
    """Return the cheapest sufficient per-line test; None if no line can hide anything."""
    if _has_written_signs(block):
        return may_hide
    return _has_displayed_disguise if _has_displayed_disguise(block) else None


def _has_written_signs(text: str) -> bool:
    """Return whether a text has encoded signs, or characters that terminals do not show."""
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
    """Replace everything between the first and the last change by its redacted plain reading."""
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


def _read_character(match: re.Match[str]) -> str:
    if match["word"]:
        return "password"
    if match["like"]:
        return _LOOKALIKES[match["like"]]
    if match["sign"]:
        return _SPELLED_SIGNS[match["sign"].lower()]
    if match["blank"]:
        return " "
    return unicodedata.normalize("NFKC", match["wide"]) if match["wide"] else ""
