"""Find which detail a question asks for: what of an action, or which number or name among the facts. Pure.

Each detail is a short list of words in the five languages, as in `attributes`; the first row with a word in the text counts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from graph.dialogue.clauses import Clause
from graph.dialogue.intents import Intent
from graph.dialogue.spelling import split_sentences

# fmt: off
# What people ask of an action.
ACTION_DETAILS: Final[Mapping[str, str]] = {
    "files": (
        "files?|filesystems?|folders?|director(?:y|ies)|paths?|checkpoints?|ckpts?|datasets?|data|deletes?|deleted|deleting|erases?d?|wipes?d?|overwrites?|overwritten|"
        "dateien?|daten|ordner|loscht|loschen|geloscht|uberschreibt|fichiers?|dossiers?|donnees|supprime|supprimer|supprimes|efface|effacer|"
        "archivos?|ficheros?|carpetas?|datos|borra|borrar|borrara|elimina|eliminar|文 件|目 录|数 据|检 查 点|删 除|删 掉|覆 盖"
    ),
    "undo": (
        "undo|undone|undoing|undoable|reverse|reversed|reversible|irreversible|revert|reverted|roll ?back|rolled back|rolling back|way back|go back|back out|"
        "backed out|take (?:it|that|this) back|ruckgangig|ruckgangigmachen|zurucknehmen|umkehrbar|annuler|annule|annulable|revenir en arriere|defaire|"
        "deshacer|deshace|revertir|reversible|revierte|volver atras|撤 销|撤 回|回 滚|还 原|逆"
    ),
    "duration": (
        "how long|how much time|how many (?:minutes?|mins?|hours?|seconds?)|minutes?|mins?|duration|downtime|outage|unavailable|eta|takes? (?:long|ages)|"
        "wie lange?|wie lang|dauert?|dauern|ausfallzeit|minuten|combien de temps|duree|dure|longtemps|indisponible|"
        "cuanto (?:tiempo|tarda|tardara|dura|durara|demora)|cuantos minutos|duracion|minutos|多 久|多 长 时 间|几 分 钟|多 少 分 钟|停 机"
    ),
    "jobs": (
        "jobs?|(?:the|my|our|a|running) runs?|training|trainings|workloads?|ranks?|kills?|killed|process(?:es)?|pods?|notebooks?|laufe?|trainingslauf|prozesse?|taches?|"
        "entrainements?|processus|tue|trabajos?|entrenamientos?|procesos?|mata|作 业|任 务|训 练|进 程|杀"
    ),
    "reach": (
        "who|whom|whose|affect|affects|affected|users?|people|anyone|anybody|somebody|teams?|tenants?|customers?|colleagues|hosts|nodes|machines|blast radius|reach|"
        "impact|impacted|hits?|touches|notice|wer|wen|wem|betroffen|betrifft|nutzer|kunden|qui|touches?|touchee?s?|concernee?s?|utilisateurs?|clients?|"
        "quien|quienes|afecta|afectara|afectad[oa]s?|usuarios?|谁|影 响|波 及|用 户|哪 些 人"
    ),
    "risk": (
        "safe|safely|risk|risks|risky|danger|dangers|dangerous|harmless|harmful|go wrong|break|sicher|gefahrlich|risiko|ungefahrlich|schiefgehen|"
        "risque|risques|risquee?|dangereux|dangereuse|sure?|seguro|segura|riesgos?|peligros[oa]|安 全|风 险|危 险"
    ),
    "command": (
        "commands?|command line|cmd|executed?|execute|script|scripts|exactly|precisely|literally|verbatim|argv|syntax|dry run|would you run|befehle?|kommandos?|ausfuhren|"
        "ausgefuhrt|commandes?|executer|execute|comandos?|ejecuta|ejecutar|ejecutarias|命 令|执 行|指 令|脚 本"
    ),
}
# Numbers and names that are read. `graph.incident.answers.fact_details` has the keys of each.
FACT_DETAILS: Final[Mapping[str, str]] = {
    "since": (
        "since when|since what time|when did|when (?:was|were) (?:it|that|this|the first)|what time did|first (?:seen|time|appear\\w*|show\\w*)|how long (?:has|have|is|was|are)|"
        "start(?:ed)?|begin|began|begun|seit wann|wann (?:hat|fing|ist|begann|war)|seit wie lange|depuis quand|depuis combien|quand (?:est|a|cela|ca)|"
        "desde cuando|cuando (?:empezo|comenzo|fue)|什 么 时 候|何 时|从 几 点|几 点 开 始|多 久 了"
    ),
    "temperature": (
        "hot|hotter|hottest|warm|warmest|temperatures?|temps?|heat|thermals?|degrees|celsius|cold|heiss|warm|temperatur|temperaturen|grad|"
        "chaud|chaude|degres|caliente|calientes|temperatura|temperaturas|grados|calor|温 度|多 热|多 烫|度"
    ),
    "power": "watts?|watt|power draw|power limit|power cap|power|strom|leistung|puissance|consommation|potencia|consumo|vatios|功 率|功 耗|瓦",
    "gpu_clock": (
        "mhz|clock speeds?|clock rates?|(?:gpu|sm|graphics|memory) clocks?|clocks|frequency|frequencies|clocked|taktrate|takt|frequence|frequences|"
        "frecuencia|frecuencias|频 率|主 频"
    ),
    "clock_offset": (
        "clock|clocks? off|skew|offset|ntp|chrony|chronyc|drift|drifted|drifting|time off|uhr|uhrzeit|zeitabweichung|horloge|decalage|derive|"
        "reloj|desfase|desviacion|时 钟|时 间 偏|时 间 差"
    ),
    "cuda": "cuda|cudnn|pytorch|torch",
    "nccl": "nccl versions?|versions? (?:of|de|von) nccl|(?:which|what|welche|quel|quelle|que) nccl|nccl 版 本",
    "firmware": "firmware|vbios|bios|固 件",
    "versions": (
        "versions?|driver|drivers|kernel version|release|treiber|treiberversion(?:en)?|pilote|pilotes|controlador(?:es)?|version(?:es)?|"
        "版 本|驱 动"
    ),
    "mount": (
        "mounts?|mountpoints?|mount points?|filesystems?|file systems?|partitions?|share|export|dateisystem|mountpunkt|montages?|point de montage|"
        "systeme de fichiers|punto de montaje|montaje|sistema de archivos|挂 载 点?|文 件 系 统"
    ),
    "disk": "disks?|full|space|inodes?|storage|platte|festplatte|voll|speicherplatz|disque|plein|pleine|espace|disco|lleno|llena|espacio|磁 盘|硬 盘|空 间|满",
    "bandwidth": (
        "bandwidth|bandwidths|busbw|bus bw|throughput|gb s|gbit|gbps|gb|speed|fast|slow|bandbreite|durchsatz|wie schnell|bande passante|debit|vitesse|"
        "ancho de banda|velocidad|rendimiento|带 宽|吞 吐|多 快|速 度|速 率"
    ),
    "errors": (
        "errors?|error count|error counts|counters?|ecc|xids?|crc|symbol errors|retransmits?|remaps?|remapped|row remaps?|drops|dropped|failures|fehler|fehlern|zahler|"
        "erreurs?|compteurs?|errores|error|contador(?:es)?|错 误|计 数|报 错"
    ),
    "memory": "memory|vram|ram|mem|hbm|gib|speicher|memoire|memoria|显 存|内 存",
    "utilisation": "utili[sz]ation|util|busy|load|auslastung|charge|utilizacion|carga|利 用 率|负 载|占 用",
    "link": (
        "links?|ports?|nics?|hcas?|cables?|interfaces?|adapters?|nvlinks?|lanes|verbindung|kabel|anschluss|"
        "adapter|liens?|cables?|enlaces?|puertos?|cable|链 路|端 口|网 卡|线 缆|网 口"
    ),
    "gpu": "gpus?|cards?|devices?|slots?|accelerator|bdf|pci address|index|karten?|gerat|grafikkarte|cartes?|carte|tarjetas?|dispositivos?|显 卡|卡|哪 块|哪 张|设 备",
    "process": "process(?:es)?|pids?|prozess|processus|procesos?|进 程",
}
# fmt: on
_BY_INTENT: Final[Mapping[Intent, Mapping[str, str]]] = {
    Intent.ACTION_DETAIL: ACTION_DETAILS,
    Intent.ON_APPROVE: ACTION_DETAILS,
    Intent.FACT_DETAIL: FACT_DETAILS,
}
_PATTERNS: Final = {
    intent: {name: re.compile(rf"(?:^|(?<= ))(?:{words})(?= |$)") for name, words in table.items()} for intent, table in _BY_INTENT.items()
}


def find_detail(intent: Intent, clauses: Sequence[Clause]) -> str:
    """Return the detail that the sentences ask of this intent, or an empty string. Names of hosts do not count."""
    texts = [" ".join(word for at, word in enumerate(clause.words) if at not in clause.named.used.get("host", ())) for clause in clauses]
    return _find_first(intent, texts)


def find_detail_in_text(intent: Intent, text: str) -> str:
    """Return the same of a text whose names are not known."""
    return _find_first(intent, [" ".join(sentence.words) for sentence in split_sentences(text)])


def _find_first(intent: Intent, texts: Sequence[str]) -> str:
    return next((name for name, pattern in _PATTERNS.get(intent, {}).items() if any(map(pattern.search, texts))), "")
