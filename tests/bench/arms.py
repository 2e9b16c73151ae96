"""The table of arms. One that needs a language model and has none says so in place of figures; nothing is ever made up for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tests.bench import arms_model as models
from tests.bench import arms_rules as rules
from tests.bench.ablations import ABLATIONS, Ablated
from tests.bench.aidai import AidAI
from tests.bench.arm import Arm
from tests.bench.free_agent import FreeAgent
from tests.bench.line import Access
from tests.bench.outside import is_outside, maker
from tests.bench.two_models import Liar, Sage, With

NO_MODEL = "no model endpoint is set: RACKMEDIC_MODEL_URL, or RACKMEDIC_MODEL_API_KEY for OpenAI, or --replay with a recording"


@dataclass(frozen=True, slots=True)
class Row:
    """An arm: what it is, and how it is made. `model`: it needs one; `part`: the arm whose part it leaves out."""

    title: str
    make: Callable[[], Arm]
    model: bool = False
    sees_cluster: bool = False
    looks: bool = True
    part: str = ""


BASELINES: Mapping[str, Row] = {
    "B0": Row("prior: the commonest cause, always", rules.Prior, looks=False),
    "B1": Row("retrieval: BM25 over the ticket", rules.Retrieval, looks=False),
    "B2": Row("retrieval of five + one model call", models.RetrieveAndAsk, model=True, looks=False),
    "B3": Row("one model call on the ticket", models.OneShot, model=True, looks=False),
    "B4": Row("every check, then one model call", models.EverythingAndAsk, model=True),
    "B4r": Row("every check, then the rules once", rules.RunEverything),
    "B5": Row("taxonomy walk, one check at a time", rules.TaxonomyOnly),
    "B6": Row("AidAI's algorithm: history, walk, forgets between siblings", AidAI, model=True),
    "B7": Row("free agent with a shell", FreeAgent, model=True),
    "B8": Row("RackMedic without a model", rules.Product),
    "B9": Row("RackMedic with a model", partial(rules.Product, model=True), model=True),
    "B10": Row("oracle with state access", rules.Oracle, sees_cluster=True, looks=False),
}


def _ablated(name: str) -> Row:
    whole, row = name.partition("-")[0], ABLATIONS[name]
    model = BASELINES[whole].model
    return Row(f"{whole} {row.says}", partial(Ablated, row, model=model), model=model, part=whole)


BOUNDS: Mapping[str, Row] = {
    "B6-sage": Row("B6 with a model that is always right", lambda: With(AidAI(), Sage), sees_cluster=True, part="B6"),
    "B8-sage": Row("B8 with a model that is always right", lambda: With(rules.Product(model=True), Sage), sees_cluster=True, part="B8"),
    "B8-liar": Row("B8 with a model that is always wrong", lambda: With(rules.Product(model=True), Liar), sees_cluster=True, part="B8"),
}
"""What a model could do at best and at worst, with no model: one that knows the truth stands in its place."""


class Arms(dict[str, Row]):
    """The rows, and what others bring (`outside`): named by where it is, it is read when it is first asked for."""

    def __missing__(self, name: str) -> Row:
        if not is_outside(name):
            raise KeyError(name)
        self[name] = Row(*maker(name))
        return self[name]


ARMS: Mapping[str, Row] = Arms({**BASELINES, **{name: _ablated(name) for name in ABLATIONS}, **BOUNDS})
MODEL_FREE = tuple(name for name, row in BASELINES.items() if not row.model)
PARTS = tuple(name for name, row in ARMS.items() if row.part == "B8")
"""The product without a model, with one part left out or a model's best and worst put in."""

GROUPS: Mapping[str, tuple[str, ...]] = {"free": MODEL_FREE, "parts": ("B8", *PARTS, "B6-sage"), "all": tuple(BASELINES)}


def why_not(name: str, access: Access | None) -> str:
    """Why an arm cannot run here; empty when it can."""
    return NO_MODEL if ARMS[name].model and access is None else ""
