"""Normalize text into plain words: case, accents, contractions, emoji and typing errors. Pure, in linear time."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

LONGEST = 4_000  # Characters read per message.
MOST_WORDS = 240
LONGEST_WORD = 24  # Letters of a word that is compared with others.

# Chinese punctuation as ASCII; question particles get a question mark.
_FULL_WIDTH: Final[dict[int, str]] = {
    **{ord(wide): narrow for wide, narrow in zip("？！。，：；（）", "?!.,:;()", strict=True)},
    **{ord(sign): f"{sign}?" for sign in "吗呢"},
}
# Borders of Chinese and Latin text, which have no blank.
_JOINED = re.compile(r"(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])[.,]")
_HAN = re.compile(r"[\u4e00-\u9fff]")  # Chinese words are not separated, so each sign counts as a word.
_BREAK = re.compile(r"[?!…\n]|[.;](?=\s|$)")
_PART = re.compile(r"[^\W\d_]+(?:['’`´][^\W\d_]+)*")
_EDGE = "\"'`*_~()[]{}<>,.:;!?«»“”„‘’…¿¡#"
_SHORT: Final[Mapping[str, str]] = {
    "n't": "not",
    "s": "is",
    "re": "are",
    "m": "am",
    "ll": "will",
    "ve": "have",
    "d": "would",
}
# fmt: off
_SPELT_ROWS: Final = """
whats=what_is wats=what_is hows=how_is whos=who_is wheres=where_is thats=that_is lets=let_us dont=do_not dnt=do_not cant=can_not
cannot=can_not wont=will_not isnt=is_not arent=are_not wasnt=was_not didnt=did_not doesnt=does_not hasnt=has_not havent=have_not
shouldnt=should_not couldnt=could_not wouldnt=would_not aint=is_not im=i_am ive=i_have youre=you_are theres=there_is gimme=give_me
lemme=let_me wanna=want_to gonna=going_to gotta=have_to pls=please plz=please plse=please u=you ur=your r=are thx=thanks thnx=thanks
tnx=thanks ty=thanks tysm=thanks teh=the waht=what wht=what wich=which hwo=how becuase=because cuz=because bc=because abt=about w=with
ok=okay k=okay kk=okay okey=okay okie=okay ya=yes yep=yes yup=yes yeah=yes yea=yes nope=no nah=no rn=now atm=now asap=now info=information
smth=something sth=something ppl=people tho=though tmrw=tomorrow ack=okay roger=okay wtf=what wil=will aswell=as_well alot=a_lot onyl=only
jsut=just nwo=now cna=can plase=please hlep=help stil=still thnaks=thanks noone=nobody helo=hello stpo=stop tx=thanks
wat=what ths=this till=until compair=compare +1=thumbsup -1=thumbsdown dunno=do_not_know wdym=what_do_you_mean tbh=honestly btw=also howto=how_to
"""
# Chat abbreviations and misspelt short words.
SPELT: Final[Mapping[str, str]] = {word: said.replace("_", " ") for word, _, said in (row.partition("=") for row in _SPELT_ROWS.split())}
_EMOJI: Final[Mapping[str, str]] = {
    "👍": "thumbsup", "✅": "thumbsup", "🙏": "thanks", "❤": "thanks", "🎉": "great", "🚀": "thumbsup", "👎": "thumbsdown", "😂": "haha",
    "🤣": "haha", "😅": "haha", "🙂": "haha", "😀": "haha", "👋": "hello", "💯": "great", "🔥": "great", "👏": "great", "🙌": "great", "👌": "okay",
}
_CODES: Final[Mapping[str, str]] = {
    "thumbsup": "thumbsup", "+1": "thumbsup", "white_check_mark": "thumbsup", "heavy_check_mark": "thumbsup", "pray": "thanks", "tada": "great",
    "heart": "thanks", "clap": "great", "raised_hands": "great", "joy": "haha", "wave": "hello", "ok_hand": "okay", "-1": "thumbsdown",
    "thumbsdown": "thumbsdown", "slightly_smiling_face": "haha", "smile": "haha", "rocket": "thumbsup", "fire": "great", "100": "great",
    "rofl": "haha", "laughing": "haha", "eyes": "looking",
}
# fmt: on


class Sentence(NamedTuple):
    """`words` are normalized; a word with a digit is only lower-cased."""

    words: tuple[str, ...]
    asks: bool  # Ends with a question mark.
    text: str


def split_sentences(text: str) -> list[Sentence]:
    found: list[Sentence] = []
    text, start, room = separate_scripts(text[:LONGEST]), 0, MOST_WORDS
    for stop in [*_BREAK.finditer(text), None]:
        said = text[start : stop.start() if stop else len(text)]
        words = normalize_words(said)[:room]
        asks = bool(stop and stop[0] == "?")
        if words:
            found.append(Sentence(tuple(words), asks, said.strip()))
            room -= len(words)
        elif asks and found:
            found[-1] = found[-1]._replace(asks=True)
        start = stop.end() if stop else start
    return found


def separate_scripts(text: str) -> str:
    """Separate Chinese from other text and convert its punctuation."""
    text = text.translate(_FULL_WIDTH)
    return _JOINED.sub(lambda found: f"{found[0]} ", text) if not text.isascii() else text


def normalize_words(text: str) -> list[str]:
    """Return lower-case words without accents; contractions expanded, emoji by name."""
    for sign, name in _EMOJI.items():
        text = text.replace(sign, f" {name} ")
    return [word for chunk in text.replace("/", " / ").split() for word in _chunk(chunk)]


def _chunk(chunk: str) -> list[str]:
    code = chunk.rstrip(",.")
    if len(code) > 2 and code[0] == code[-1] == ":":
        name = code.strip(":").lower()
        return [_CODES.get(name, f":{name[:LONGEST_WORD]}:")]
    if any(letter.isdigit() for letter in chunk):
        return [chunk.strip(_EDGE).lower()[:80]]
    plain = strip_accents(chunk.lower())
    plain = plain.replace("-", "", 1) if plain.startswith(("re-", "un-")) else plain
    words = [word for part in _PART.findall(plain) for word in _uncontracted(part)]
    return words if plain.isascii() else [sign for word in words for sign in (word if _HAN.search(word) else (word,))]


def strip_accents(text: str) -> str:
    """Remove accents: ü becomes u, ß becomes ss."""
    text = text.replace("ß", "ss")
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


def _uncontracted(part: str) -> list[str]:
    part = part.replace("’", "'").replace("`", "'").replace("´", "'")
    if "'" not in part:
        return [part]
    if part in ("can't", "won't", "shan't"):
        return [{"c": "can", "w": "will", "s": "shall"}[part[0]], "not"]
    if part.endswith("n't"):
        return [part[:-3], "not"]
    head, _, tail = part.rpartition("'")
    if tail in _SHORT:
        return [*head.replace("'", " ").split(), _SHORT[tail]]
    return part.replace("'", " ").split()


def expand_abbreviations(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in SPELT.get(word, word).split()]


class SpellingCorrector:
    """Known words, indexed to find the few that a misspelt word may mean. `real` words are never corrected."""

    def __init__(self, known: Collection[str], real: Collection[str]) -> None:
        self._known, self._real = frozenset(known), frozenset(real)
        self._beginning: dict[tuple[str, int], list[str]] = {}
        self._of_letters: dict[str, list[str]] = {}
        for word in sorted(word for word in self._known if len(word) >= 4):
            self._beginning.setdefault((word[0], len(word)), []).append(word)
            self._of_letters.setdefault("".join(sorted(word)), []).append(word)

    def correct_word(self, word: str) -> str:
        if len(word) < 4 or len(word) > LONGEST_WORD or word in self._known or word in self._real or not word.isalpha():
            return word
        squeezed = _squeezed(word)
        if squeezed in self._known:
            return squeezed
        near = [other for other in self._nearby(word) if _slip(word, other)]
        return min(near, key=lambda other: (_first(word, other), abs(len(other) - len(word)), other)) if near else word

    def _nearby(self, word: str) -> Iterator[str]:
        """The first letter is rarely wrong, except when swapped."""
        for length in range(len(word) - 2, len(word) + 3):
            yield from self._beginning.get((word[0], length), ())
        yield from self._of_letters.get("".join(sorted(word)), ())


def _first(word: str, other: str) -> tuple[bool, int]:
    return word[0] != other[0], compute_edit_distance(word, other, 2)


def _slip(word: str, other: str) -> bool:
    """Accept swapped letters; from five letters one extra or missing, from six one wrong, from eight two errors. The
    first letter must match unless letters are swapped.
    """
    if sorted(word) == sorted(other):
        return compute_edit_distance(word, other, 1) <= 1
    if min(len(word), len(other)) < 5 or word[0] != other[0]:
        return False
    if len(word) == len(other) and len(word) < 6:
        return False
    far = 2 if min(len(word), len(other)) >= 8 else 1
    return compute_edit_distance(word, other, far) <= far


def _squeezed(word: str) -> str:
    """Shorten repeated letters: `pleeeease`, `stoppp`."""
    return re.sub(r"(.)\1{2,}", r"\1", word)


def compute_edit_distance(one: str, two: str, most: int) -> int:
    """Return insertions, deletions, substitutions and swaps between two words, at most `most` + 1."""
    if abs(len(one) - len(two)) > most:
        return most + 1
    before: Sequence[int] = []
    row: list[int] = list(range(len(two) + 1))
    for at, letter in enumerate(one, 1):
        last, row = row, [at]
        for to, other in enumerate(two, 1):
            cost = min(last[to] + 1, row[to - 1] + 1, last[to - 1] + (letter != other))
            if at > 1 and to > 1 and letter == two[to - 2] and one[at - 2] == other:
                cost = min(cost, before[to - 2] + 1)
            row.append(cost)
        before = last
        if min(row) > most:
            return most + 1
    return row[-1]
