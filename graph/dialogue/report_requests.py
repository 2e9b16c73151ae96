"""Recognise requests for the post-incident report in five languages. Pure.

The whole message must be that request, because other reports are mentioned often. Input is normalized text (lower case,
no accents, single spaces).
"""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple

LONGEST: Final = 160  # Characters of a single request.


class ReportRequestPattern(NamedTuple):
    """The parts of one language's requests: openers, request verbs, determiners, unambiguous and ambiguous nouns,
    endings.

    An ambiguous noun needs a request verb before it or one of `marks` after it.
    """

    lead: str
    wish: str
    before: str
    noun: str
    other: str
    behind: str
    marks: str

    def build_pattern(self) -> str:
        """Return a pattern of the whole message. Possessive quantifiers keep matching linear."""
        opens, behind = rf"(?:(?:{self.lead}) )*+", rf"(?: (?:{self.behind}))*+"
        wished = rf"(?:(?:{self.wish}) )(?:(?:{self.before}) )*+(?:{self.noun}|{self.other}){behind}"
        named = rf"(?:(?:{self.before}) )*+(?:{self.noun}){behind}"
        marked = rf"(?:(?:{self.before}) )*+(?:{self.other}) (?:{self.marks}){behind}"
        return rf"{opens}(?:{wished}|{named}|{marked})"


WISHES: Final[Mapping[str, ReportRequestPattern]] = {
    "en": ReportRequestPattern(
        lead="hey|hi|hello|ok|okay|so|and|now|please|pls|then|great|cool|thanks|perfect",
        wish=(
            r"(?:can|could|may|might|shall) (?:i|we|you|someone|somebody) (?:(?:please|pls|kindly|also|just) )*+(?:have|get|see|send|give|write|make|create"
            r"|generate|produce|post|share|upload|export|download|draft|attach|prepare|print)(?: (?:me|us|up|out|over))*+"
            r"|(?:will|would) you (?:please )?(?:send|give|write|make|create|generate|post|share|prepare)(?: (?:me|us|up))*+"
            r"|(?:i|we) (?:(?:still|also|now) )*+(?:need|want|would like|d like|will need|ll need|could use)(?: to (?:have|see|get|download))?"
            r"|(?:send|give|write|make|create|generate|produce|post|share|upload|export|show|get|draft|attach|prepare|print)(?: (?:me|us|up|out|over))*+"
            r"|let (?:me|us) (?:have|see)|where (?:is|can i (?:get|find))|how (?:do|can) (?:i|we) get|is there|what about|time for"
        ),
        before="a|an|the|this|that|our|its|your|my|final|full|whole|complete|written|one page|official|pdf|html|markdown|md|proper|short",
        noun=(
            r"post ?mortems?(?: (?:report|document|doc|page|pdf|file))*+"
            r"|(?:post ?incident|incident|after action|rca) (?:reports?|pdf|page|document|doc|write ?up)(?: (?:pdf|file|document))?"
            r"|(?:pdf|page) of (?:this|the) incident|report pdf"
        ),
        other="report",
        behind=(
            r"please|pls|thanks|thank you|now|(?:for|of|on|about|to) (?:this|the|that|it|me|us)(?: (?:incident|one|thread|ticket|outage))?|of it"
            r"|as (?:an? )?(?:pdf|file|html|markdown|md|document|attachment)|in (?:pdf|here|html|markdown|md)|here|again|asap|too|then|when you can"
            r"|pdf|markdown|md|file"
            r"|attached|yet|ready"
        ),
        marks=r"please|pls|in (?:pdf|markdown|md)|as (?:an? )?(?:pdf|file|html|markdown|md|document)|(?:for|of|on|about) (?:this|the) incident",
    ),
    "de": ReportRequestPattern(
        lead="hey|hi|hallo|ok|okay|bitte|und|dann|jetzt|so|super|danke|also",
        wish=(
            r"(?:kann|konnte|darf) (?:ich|man|jemand)(?: (?:bitte|mal|mir|uns|noch))*+|(?:kannst|konntest) du(?: (?:bitte|mal|mir|uns|noch))*+"
            r"|(?:konnen|konnten|konnt|konntet) (?:wir|sie|ihr)(?: (?:bitte|mal|mir|uns|noch))*+"
            r"|(?:ich|wir) (?:brauche|brauchen|hatte|hatten|mochte|mochten|will|wollen|bekomme|bekommen)(?: (?:gerne|gern|bitte|noch|jetzt))*+"
            r"|(?:gib|gebt|schick|schicke|schickt|sende|schreib|schreibe|schreibt|erstelle|erstell|erstellt|mach|macht|zeig|zeigt|geben sie|schicken sie"
            r"|erstellen sie|schreiben sie|senden sie)(?: (?:mir|uns|bitte|mal))*+|wo ist|gibt es(?: schon)?"
        ),
        before="den|der|das|die|dem|ein|einen|eine|einem|fertigen|ganzen|kompletten|vollstandigen|abschliessenden|diesen|pdf|kurzen",
        noun=(
            r"(?:vorfalls?|abschluss|ereignis|storungs|storfall|incident) ?(?:berichte?s?|report)|post ?mortem(?: bericht)?|pdf ?bericht"
            r"|bericht (?:zu diesem|zum|zu dem|uber den|uber diesen) (?:vorfall|incident|ausfall)|bericht als (?:pdf|datei|markdown|md)"
        ),
        other="bericht|report",
        behind=(
            r"bitte|danke|als (?:pdf|datei|html|markdown|md|file|dokument)|haben|bekommen|sehen|schicken|geben|senden|erstellen|schreiben|machen|kriegen|posten"
            r"|hochladen|(?:zu diesem|zum|zu dem|fur diesen|fur den|uber diesen|uber den) (?:vorfall|incident|ausfall)|hier|jetzt|dazu|davon|gern|gerne|noch"
            r"|mal|her|pdf|uns|mir"
        ),
        marks=r"bitte|als (?:pdf|datei|markdown|md|dokument)",
    ),
    "fr": ReportRequestPattern(
        lead="bonjour|salut|ok|et|alors|maintenant|merci|svp|s il (?:te|vous) plait",
        wish=(
            r"(?:je|on|nous) (?:peux|peut|pouvons|voudrais|voudrions|veux|voulons|aimerais|aimerions|souhaite|souhaiterais)(?: (?:avoir|recevoir|voir))?"
            r"|(?:est ce que )?(?:je|on) (?:peux|peut|pourrait|pourrais) (?:avoir|recevoir|voir)|(?:puis je|peut on|pourrait on) (?:avoir|recevoir|voir)"
            r"|(?:peux tu|pouvez vous|pourriez vous|pourrais tu|tu peux|vous pouvez) (?:(?:me|m|nous) )?(?:envoyer|donner|ecrire|generer|faire|fournir"
            r"|rediger|preparer)"
            r"|(?:envoie|envoyez|donne|donnez|ecris|ecrivez|fais|faites|genere|generez|redige|redigez|montre|montrez|prepare|preparez)(?: (?:moi|nous))?"
            r"|il (?:me|nous) faut|j ai besoin d[eu]?|(?:nous avons|on a) besoin d[eu]?|ou est"
        ),
        before="le|la|l|un|une|du|de|ce|cet|votre|ton|d",
        noun=(
            r"rapport (?:d incident|post ?incident|post ?mortem|de l incident|final de l incident|de fin d incident|sur (?:cet|l) incident"
            r"|en (?:pdf|markdown|md)|pdf)"
            r"|compte rendu (?:d incident|de l incident|final)|post ?mortem|pdf de l incident"
        ),
        other="rapport|rapport final|rapport complet",
        behind=(
            r"s il (?:te|vous) plait|svp|stp|merci|en (?:pdf|markdown|md)|au format pdf|en fichier|(?:de|pour|sur) (?:cet|l) incident"
            r"|complet|final|maintenant|ici"
            r"|en piece jointe"
        ),
        marks=r"s il (?:te|vous) plait|svp|stp|en (?:pdf|markdown|md)|au format pdf",
    ),
    "es": ReportRequestPattern(
        lead="hola|ok|y|entonces|ahora|por favor|gracias|vale",
        wish=(
            r"(?:puedo|podemos|podria|podriamos|se puede) (?:tener|ver|recibir|obtener|descargar)"
            r"|(?:me |nos )?(?:puedes|puede|podrias|podria|pueden) (?:darme|darnos|enviarme|enviarnos|mandarme|mandarnos|pasarme|pasarnos|dar|enviar|mandar"
            r"|pasar|escribir|generar|hacer|crear|preparar)"
            r"|dame|danos|denos|deme|envia|enviame|envianos|mandame|mandanos|pasame|pasanos|genera|escribe|haz|crea|prepara|muestrame"
            r"|quiero|queremos|necesito|necesitamos|quisiera|quisieramos|me gustaria (?:tener|ver)|donde esta"
        ),
        before="el|un|una|la|este|su|nuestro|final|completo",
        noun=(
            r"(?:informe|reporte) (?:del|de este|post|posterior al|final del|sobre el|sobre este|de) ?incidente"
            r"|(?:informe|reporte) (?:pdf|en (?:pdf|markdown|md))"
            r"|(?:informe |reporte )?post ?mortem"
        ),
        other="informe|informe final|informe completo|reporte",
        behind="por favor|porfa|gracias|en (?:pdf|markdown|md)|como (?:archivo|pdf)|(?:de este|del|sobre el|sobre este) incidente|ahora|aqui|final|completo",
        marks="por favor|porfa|en (?:pdf|markdown|md)|como (?:archivo|pdf)",
    ),
}
_CHINESE: Final = (
    r"(?:能不能|可不可以|可以|可否|请问|请|麻烦|帮我|帮忙|给我们|给我|我们需要|我需要|我想要|我们要|我要|需要|能|发一下|发送|发|写一下|写|生成|导出|看一下|看看|看|提供|下载"
    r"|一下|一份|一个|这次|本次|这个|该|的|把|来|出|要|有)*+(?:事故|事件|故障|复盘|事后|事后分析)(?:分析)?(?:报告|复盘|文档)"
    r"(?:发给我们|发给我|发我|发一下|发出来|给我们|给我|好吗|可以吗|的|pdf|文件|吗|吧|呢|谢谢)*+|(?:请|给我|给我们|发我|发一下|我要|我们要|麻烦)++(?:一份|发)?报告(?:谢谢|吧)?"
)
_READ: Final = re.compile("|".join((*(row.build_pattern() for row in WISHES.values()), r"报告(?:发给我们|发给我|请)")))
_IN_CHINESE: Final = re.compile(_CHINESE)


def is_report_request(plain: str) -> bool:
    """Return whether a message requests the post-incident report and nothing else."""
    if not plain or len(plain) > LONGEST:
        return False
    return _READ.fullmatch(plain) is not None or _IN_CHINESE.fullmatch(plain.replace(" ", "")) is not None


def normalize_text(text: str) -> str:
    """Return lower case without accents and punctuation, with single spaces."""
    bare = "".join(sign for sign in unicodedata.normalize("NFKD", text[: LONGEST * 2].casefold()) if not unicodedata.combining(sign))
    return " ".join(re.sub(r"[^\w]+", " ", re.sub(r"(?<=[a-z])['’](?=(?:t|s|re|m)\b)", "", bare)).split())
