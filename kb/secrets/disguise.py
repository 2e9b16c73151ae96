"""Characters that hide a secret from a reader of patterns and not from people: of no width, of a terminal's colours, of another alphabet."""

import re
import unicodedata
from collections.abc import Callable

_CYRILLIC = dict(zip("асԁеһіјкӏморԛѕтуԝхАВЕІЈКМНОРЅТУХ", "acdehijklmopqstywxABEIJKMHOPSTYX", strict=True))
_GREEK = dict(zip("αικνορτυ", "aikvoptu", strict=True))
_ALIKE = _CYRILLIC | _GREEK
WORDS = ("пароль", "парола", "密码", "密碼", "口令", "パスワード", "비밀번호", "contraseña")
"""What other languages call a password."""

_NO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
_ESCAPE = r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e|#033|\^\[)\[[\d;]{0,20}[A-Za-z]"
_PIECE = re.compile(
    rf"(?P<word>{'|'.join(WORDS)})|(?P<gone>{_ESCAPE}|[{_NO_WIDTH}]|\\u200[bcdBCD]|\\ufeff)|(?P<wide>[\uff01-\uff5e\U0001d400-\U0001d7ff])"
    rf"|(?P<like>[{''.join(_ALIKE)}])"
)
_STARTS = re.compile(rf"[\x1b{_NO_WIDTH}\uff01-\uff5e\U0001d400-\U0001d7ff{''.join(_ALIKE)}{''.join(word[0] for word in WORDS)}ñ]")
_SPELLED = ("\\u001", "\\x1", "\\033[", "\\e[", "\\u200", "\\ufeff")


def may_hide(text: str) -> bool:
    """Whether anything in it could be a disguise. Cheap for what is plain ASCII."""
    if "\x1b" in text or "^[[" in text or "#033[" in text or ("\\" in text and any(spelled in text for spelled in _SPELLED)):
        return True
    return not text.isascii() and any(not line.isascii() and _STARTS.search(line) for line in text.split("\n"))


def unmasked(line: str, clean: Callable[[str], str]) -> str:
    """The line without the secrets that `clean` finds once the disguise is off; as it was where it finds none."""
    plain, places = _plain(line)
    if plain == line:
        return line
    said = clean(plain)
    if said == plain:
        return line
    same = min(len(plain), len(said))
    head = next((at for at in range(same) if plain[at] != said[at]), same)
    tail = next((at for at in range(same - head) if plain[-1 - at] != said[-1 - at]), same - head)
    return f"{line[: places[head]]}{said[head : len(said) - tail]}{line[places[len(plain) - tail] :]}"


def _plain(line: str) -> tuple[str, list[int]]:
    """As it reads, and for each of its characters (and its end) where it stands in the line."""
    parts: list[str] = []
    places: list[int] = []
    at = 0
    for found in _PIECE.finditer(line):
        put = _read_as(found)
        parts += (line[at : found.start()], put)
        places += range(at, found.start())
        places += [found.start()] * len(put)
        at = found.end()
    parts.append(line[at:])
    places += range(at, len(line) + 1)
    return "".join(parts), places


def _read_as(found: re.Match[str]) -> str:
    if found["word"]:
        return "password"
    if found["like"]:
        return _ALIKE[found["like"]]
    return unicodedata.normalize("NFKC", found["wide"]) if found["wide"] else ""
