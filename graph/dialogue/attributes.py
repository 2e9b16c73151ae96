"""Find what qualifies a request: which other hosts, for whom, in which form, which picture. Pure.

Each attribute is a short list of words in the five languages; phrases are written with single spaces.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from graph.dialogue.clauses import Clause

# fmt: off
_WORDS: Final[Mapping[str, str]] = {
    "others": (
        "other|others|else|rest|remaining|neighbours?|neighbors?|siblings|peers|further|anderen?|rest|ubrigen|restlichen|"
        "autres?|reste|restants?|otros|otras|demas|resto|其 他|其 它|其 余|别 的|剩 下"
    ),
    "all": (
        "all|every|everything|everyone|everywhere|each|whole|entire|both|fleet|cluster|alle|allen|aller|alles|ganzen?|"
        "tous|toutes|tout|todos|todas|todo|toda|所 有|全 部|整 个|集 群"
    ),
    "manager": (
        "manager|managers|boss|bosses|management|lead|director|vp|cto|ceo|exec|execs|executives?|leadership|stakeholders?|customers?|non technical|"
        "layman|plain english|supervisor|chief|head of|mgmt|chef|chefin|vorgesetzten|kunden|chef|cheffe|direction|client|jefe|jefa|gerente|cliente|"
        "老 板|经 理|领 导|客 户"
    ),
    "ticket": "ticket|tickets|jira|servicenow|postmortem|post mortem|fur das ticket|furs ticket|工 单",
    "picture": (
        "picture|image|plot|chart|graph|screenshot|heatmap|heat map|diagram|png|visual|visualise|visualize|graphically|drawing|draw|drawn|bild|grafik|"
        "diagramm|zeichne|image|graphique|dessine|imagen|grafico|dibuja|图|图 片|画"
    ),
    "file": "file|attachment|download|txt|attached|attach|upload|snippet|datei|anhang|fichier|archivo|adjunto|文 件|附 件",
    "timeline": (
        "timeline|timelines|time line|chronology|chronological|sequence of events|course of events|order of events|events|zeitleiste|zeitstrahl|"
        "zeitachse|chronologie|ablauf|frise|deroule|cronologia|linea de tiempo|linea temporal|时 间 线|时 间 轴"
    ),
    "bandwidth": "curve|curves|bandwidth|busbw|message sizes?|kurve|bandbreite|courbe|bande passante|curva|ancho de banda|曲 线|带 宽",
}
# fmt: on
_PATTERNS: Final = {name: re.compile(rf"(?:^|(?<= ))(?:{words})(?= |$)") for name, words in _WORDS.items()}


def find_attributes(clauses: Sequence[Clause]) -> frozenset[str]:
    """Return the attributes that the sentences name."""
    texts = [_plain_words(clause) for clause in clauses]
    return frozenset(name for name, pattern in _PATTERNS.items() if any(pattern.search(text) for text in texts))


def _plain_words(clause: Clause) -> str:
    """Leave out a group's name, which may be a word of the tables."""
    skipped = clause.named.used.get("group", ())
    return " ".join(word for at, word in enumerate(clause.words) if at not in skipped)
