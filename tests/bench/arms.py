"""The table of arms. One that needs a language model and has none says so in place of figures; nothing is ever made up for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.bench import arms_model as models
from tests.bench import arms_rules as rules
from tests.bench.arm import Arm, NotRun
from tests.bench.arms_model import Access


@dataclass(frozen=True, slots=True)
class Row:
    """An arm: what it is, and how it is made. `model`: it needs one."""

    title: str
    make: Callable[[Access | None], Arm]
    model: bool = False
    sees_cluster: bool = False
    looks: bool = True


ARMS: Mapping[str, Row] = {
    "B0": Row("prior: the commonest cause, always", lambda _: rules.Prior(), looks=False),
    "B1": Row("retrieval: BM25 over the ticket", lambda _: rules.Retrieval(), looks=False),
    "B2": Row("retrieval of five + one model call", lambda access: models.RetrieveAndAsk(needed(access)), model=True, looks=False),
    "B3": Row("one model call on the ticket", lambda access: models.OneShot(needed(access)), model=True, looks=False),
    "B4": Row("every check, then one model call", lambda access: models.EverythingAndAsk(needed(access)), model=True),
    "B4r": Row("every check, then the rules once", lambda _: rules.RunEverything()),
    "B5": Row("taxonomy walk, one check at a time", lambda _: rules.TaxonomyOnly()),
    "B6": Row("AidAI's algorithm: history, walk, forgets between siblings", lambda access: models.AidAI(needed(access)), model=True),
    "B7": Row("free agent with a shell", lambda access: models.FreeAgent(needed(access)), model=True),
    "B8": Row("RackMedic without a model", lambda _: rules.Product()),
    "B9": Row("RackMedic with a model", lambda access: rules.Product(models.reasoner(needed(access))), model=True),
    "B10": Row("oracle with state access", lambda _: rules.Oracle(), sees_cluster=True, looks=False),
}
MODEL_FREE = tuple(name for name, row in ARMS.items() if not row.model)


def needed(access: Access | None) -> Access:
    """The model's endpoint; NotRun where none is set."""
    if access is None:
        raise NotRun("no model endpoint is set: RACKMEDIC_MODEL_URL, or RACKMEDIC_MODEL_API_KEY for OpenAI")
    return access


def why_not(name: str, access: Access | None) -> str:
    """Why an arm cannot run here; empty when it can."""
    try:
        ARMS[name].make(access)
    except NotRun as why:
        return str(why)
    return ""
