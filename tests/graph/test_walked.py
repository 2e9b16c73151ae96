"""The taxonomy walk as a tree for people."""

from graph.incident_view import IncidentView
from graph.report import Report
from graph.search_trace import _LOG_RESULTS, MAX_CHILDREN, RESULT_MARKS, RESULT_TEXTS, build_search_tree, summarize_search_tree
from graph.state import Hypothesis, IncidentState

TITLES = {
    "GPU": "GPU hardware",
    "GPU.BUS": "The bus",
    "GPU.BUS.Lost": "GPU fell off the bus",
    "GPU.BUS.Narrow": "Narrow link",
    "GPU.MEMORY": "Memory",
    "GPU.MEMORY.Ecc": "ECC errors",
    "USER": "The user's code",
    "USER.CODE": "Code",
    "USER.CODE.Desync": "Ranks out of step",
    "OTHER": "Site",
    "OTHER.INFRA": "Rack",
    "OTHER.INFRA.Hot": "Rack is hot",
}
LOG = [
    ["USER", "pruned", "1 of 1 rejected, the rest unlikely"],
    ["GPU.BUS.Lost", "confirmed", "Xid 79"],
    ["GPU.BUS.Narrow", "rejected", ""],
]
LOST = Hypothesis(label="GPU.BUS.Lost", hosts=("n2",), verdict="confirmed", confidence=0.97, because="Xid 79 on gpu3")


def incident(log: list[list[str]], *roots: Hypothesis, ruled_out: tuple[Hypothesis, ...] = ()) -> IncidentView:
    report = Report(item="1", outcome="diagnosed", root_causes=roots, ruled_out=ruled_out)
    return IncidentView(IncidentState(id="i1", walk={"log": log}, report=report.model_dump(mode="json")))


def test_what_was_found_ruled_out_passed_by_and_not_reached_is_told_apart() -> None:
    tree = build_search_tree(incident(LOG, LOST), TITLES)
    assert [(row.path, row.sign) for row in tree.branches] == [("USER", "passed by"), ("GPU", "found"), ("OTHER", "not reached")]
    assert [(depth, row.title, row.sign) for depth, row in tree.list_rows()][1:5] == [
        (0, "GPU hardware", "found"),
        (1, "The bus", "found"),
        (2, "GPU fell off the bus", "found"),
        (2, "Narrow link", "ruled out"),
    ]
    assert tree.branches[1].left_out == 1
    assert summarize_search_tree(tree) == "Found: GPU fell off the bus. Of the branches gone into: 1 ruled out, 1 passed by, 1 not reached."


def test_a_table_says_the_same() -> None:
    cells = build_search_tree(incident(LOG, LOST), TITLES).to_table()
    assert cells[0] == ("where", "what", "came to", "why")
    assert ("GPU.BUS.Lost", "GPU fell off the bus", "found", "Xid 79 on gpu3") in cells
    assert ("GPU", "GPU hardware", "found", "1 more below, not looked into") in cells


def test_ruled_out_causes_and_branches_say_by_what() -> None:
    hot = Hypothesis(label="OTHER.INFRA.Hot", verdict="rejected", because="no sensor is above 30 C")
    log = [*LOG, ["GPU.MEMORY.Ecc", "rejected", "no row was remapped"], ["GPU.MEMORY", "backtracked", ""]]
    why = {
        row.path: row.reason
        for _, row in build_search_tree(incident(log, ruled_out=(hot,)), TITLES).list_rows()
        if row.sign in ("ruled out", "passed by")
    }
    assert why == {
        "USER": "1 of 1 rejected, the rest unlikely",
        "GPU.BUS.Narrow": "what would show it was looked at, and does not",
        "GPU.MEMORY": "ECC errors: no row was remapped",
        "GPU.MEMORY.Ecc": "no row was remapped",
        "OTHER": "Rack is hot: no sensor is above 30 C",
        "OTHER.INFRA": "Rack is hot: no sensor is above 30 C",
        "OTHER.INFRA.Hot": "no sensor is above 30 C",
    }


def test_nothing_walked_is_a_tree_of_what_was_not_reached() -> None:
    tree = build_search_tree(IncidentView(IncidentState()), TITLES)
    assert {row.sign for row in tree.branches} == {"not reached"}
    assert summarize_search_tree(tree).startswith("Nothing found.")


def test_a_branch_is_ruled_out_only_where_all_below_it_was() -> None:
    ecc = ["GPU.MEMORY.Ecc", "rejected", "no errors"]
    gpu = build_search_tree(incident([["GPU.BUS.Narrow", "rejected", ""], ecc]), TITLES).branches[0]
    assert {row.path: row.sign for row in gpu.children} == {"GPU.BUS": "not decided", "GPU.MEMORY": "ruled out"}
    assert build_search_tree(incident([["GPU.BUS", "backtracked", ""]]), TITLES).branches[0].children[0].sign == "passed by"


def test_what_could_not_be_looked_at_is_told_apart_and_what_is_above_it_too() -> None:
    log = [["GPU.BUS.Lost", "could not look", "could not look: n2 does not answer"], ["GPU.BUS.Narrow", "rejected", ""]]
    doubt = Hypothesis(label="GPU.BUS.Lost", verdict="inconclusive", because="could not look: n2 does not answer").model_dump(mode="json")
    blind = IncidentView(IncidentState(id="i1", walk={"log": log}, hypotheses=[doubt]))
    gpu = build_search_tree(blind, TITLES).branches[0]
    assert (gpu.sign, [row.sign for row in gpu.children[0].children]) == ("could not look", ["could not look", "ruled out"])
    seen = build_search_tree(incident(log, LOST), TITLES).branches[0]
    assert seen.sign == "found"


def test_a_branch_that_was_left_is_not_ruled_out_by_the_few_causes_that_were_looked_at() -> None:
    log = [["GPU.BUS.Narrow", "rejected", ""], ["GPU.BUS", "backtracked", ""], ["GPU", "backtracked", ""]]
    gpu = build_search_tree(incident(log), TITLES).branches[0]
    assert (gpu.sign, gpu.children[0].sign, gpu.children[0].left_out) == ("passed by", "passed by", 1)
    whole = build_search_tree(incident([["GPU.BUS.Lost", "rejected", ""], *log]), TITLES).branches[0]
    assert whole.children[0].sign == "ruled out"


def test_what_was_judged_last_counts_more_than_the_log() -> None:
    gone = Hypothesis(label="GPU.BUS.Lost", verdict="rejected", because="the device answers now")
    tree = build_search_tree(incident(LOG, ruled_out=(gone,)), TITLES)
    assert tree.branches[1].children[0].sign == "ruled out"


def test_a_wide_branch_shows_the_telling_children_and_counts_the_rest() -> None:
    titles = {"GPU": "GPU", "GPU.X": "X"} | {f"GPU.X.L{n:02}": f"leaf {n}" for n in range(30)}
    log = [[f"GPU.X.L{n:02}", "rejected" if n != 29 else "confirmed", ""] for n in range(30)]
    (branch,) = build_search_tree(incident(log), titles).branches[0].children
    assert (len(branch.children), branch.left_out, branch.children[-1].sign) == (MAX_CHILDREN, 20, "found")


def test_a_label_of_a_site_that_is_gone_breaks_nothing() -> None:
    tree = build_search_tree(incident([["SITE.X.Gone", "confirmed", ""]]), TITLES)
    assert "Nothing found" in summarize_search_tree(tree)


def test_every_sign_has_a_mark_and_a_meaning() -> None:
    assert RESULT_MARKS.keys() == RESULT_TEXTS.keys() >= set(_LOG_RESULTS.values())
    assert len(set(RESULT_MARKS.values())) == len(RESULT_MARKS)
