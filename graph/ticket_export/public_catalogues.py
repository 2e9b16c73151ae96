"""Public chunks of the packaged catalogues; a site's own causes and checks are not public."""

from collections.abc import Iterator

from graph.ticket_export.pseudonymizer import collect_public_chunks
from kb.catalogues.table import load_table
from kb.fact_keys import KEYS
from kb.fact_text import FACT_TEXTS
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Leaf
from tools.checks import CHECKS
from tools.remedies import REMEDIES

PUBLIC_CATALOGUES = ("nccl", "nvlink5", "sxid", "xid")
# GPU product names.
PRODUCT_NAMES = (
    "NVIDIA Corporation GH100 GA100 AD102 prog-if 3D controller Tesla A100 A100-SXM4-40GB A100-SXM4-80GB A100-PCIE-40GB H100 H100-SXM5-80GB "
    "H200 B200 GB200 L4 L40 L40S HBM2 HBM2e HBM3 HBM3e PCIe SXM"
)


def load_public_chunks() -> frozenset[str]:
    """Return all public chunks. Reads the catalogues' files, so call it once per process."""
    return collect_public_chunks(_iter_public_texts())


def _iter_public_texts() -> Iterator[str]:
    yield PRODUCT_NAMES
    for leaf in load_taxonomy().leaves.values():
        yield from _iter_leaf_texts(leaf)
    for key in KEYS:
        yield f"{key.name} {key.means} {key.unit} {key.scope}"
    for words in FACT_TEXTS.values():
        yield " ".join(words)
    for check in CHECKS.values():
        yield " ".join((check.id, check.asks, *(word for command in check.commands for word in command.argv)))
    for remedy in REMEDIES.values():
        yield f"{remedy.id} {remedy.does}"
    for name in PUBLIC_CATALOGUES:
        for row in load_table(name):
            yield " ".join(row.values())


def _iter_leaf_texts(leaf: Leaf) -> Iterator[str]:
    yield " ".join((leaf.label, leaf.title, leaf.plain, leaf.description, leaf.customer_words, leaf.next_step, *leaf.words, *leaf.symptoms))
    for clue in leaf.evidence:
        yield f"{clue.key} {clue.when} {clue.says}"
