"""The table of arms. An arm without its model reports that instead of figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tests.bench.aidai.arm import AidAI
from tests.bench.arms import model_arms as models
from tests.bench.arms import rule_arms as rules
from tests.bench.arms.ablations import ABLATIONS, Ablated
from tests.bench.arms.arm import Arm
from tests.bench.arms.check_agent import CheckAgent
from tests.bench.arms.external import is_outside, maker
from tests.bench.arms.free_agent import FreeAgent
from tests.bench.arms.two_models import Liar, Sage, With
from tests.bench.model.endpoint import Access

NO_MODEL = "no model endpoint is set: RACKMEDIC_MODEL_URL, or RACKMEDIC_MODEL_API_KEY for OpenAI, or --replay with a recording"


@dataclass(frozen=True, slots=True)
class Row:
    """An arm's title and constructor. `model`: needs a model; `part`: the arm it leaves a part out of."""

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
    "B7c": Row("plain tool loop with RackMedic's checks", CheckAgent, model=True),
    "B8": Row("RackMedic without a model", rules.Product),
    "B9": Row("RackMedic with a model", partial(rules.Product, model=True), model=True),
    "B10": Row("oracle with state access", rules.Oracle, sees_cluster=True, looks=False),
}


def _ablated(name: str) -> Row:
    whole, row = name.partition("-")[0], ABLATIONS[name]
    model = BASELINES[whole].model
    return Row(f"{whole} {row.says}", partial(Ablated, row, model=model), model=model, part=whole)


# best and worst case of a model: a stand-in that knows the truth
BOUNDS: Mapping[str, Row] = {
    "B6-sage": Row("B6 with a model that is always right", lambda: With(AidAI(), Sage), sees_cluster=True, part="B6"),
    "B8-sage": Row("B8 with a model that is always right", lambda: With(rules.Product(model=True), Sage), sees_cluster=True, part="B8"),
    "B8-liar": Row("B8 with a model that is always wrong", lambda: With(rules.Product(model=True), Liar), sees_cluster=True, part="B8"),
}


class Arms(dict[str, Row]):
    """The rows, plus external arms (`outside`) loaded on first use by their location."""

    def __missing__(self, name: str) -> Row:
        if not is_outside(name):
            raise KeyError(name)
        self[name] = Row(*maker(name))
        return self[name]


ARMS: Mapping[str, Row] = Arms({**BASELINES, **{name: _ablated(name) for name in ABLATIONS}, **BOUNDS})
MODEL_FREE = tuple(name for name, row in BASELINES.items() if not row.model)
# the model-free product with one part left out, or with the best and worst model
PARTS = tuple(name for name, row in ARMS.items() if row.part == "B8")

GROUPS: Mapping[str, tuple[str, ...]] = {"free": MODEL_FREE, "parts": ("B8", *PARTS, "B6-sage"), "all": tuple(BASELINES)}


def why_not(name: str, access: Access | None) -> str:
    """Return why an arm cannot run here, or ""."""
    return NO_MODEL if ARMS[name].model and access is None else ""
