"""The page of results: its data is what tables, comparisons and checks say, and its files are whole and the same."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import oodbench as command
from command_line import python
from made_results import a_given_result, a_result, with_scores
from page_data import COMMAND, REFERENCE, chunks_beside, chunks_of, some_of

import oodbench
from oodbench.errors import UserError
from oodbench.report import comparison, tables
from oodbench.report.page import boards as page_boards
from oodbench.report.page import chunks, document, folders, scores, site
from oodbench.report.page.boards import boards
from oodbench.report.page.leaderboard import standings
from oodbench.report.page.pairs import data_of as pairs_of
from oodbench.results import pairs, statistics
from oodbench.results.folder import Reading, read_folder
from oodbench.results.ledger import Ledger
from oodbench.results.metrics import Scored, curve
from oodbench.results.samples import Sample
from oodbench.results.selection import TRAINING_DOMAIN
from oodbench.results.statistics import Column

METHODS = ("msp", "energy", "erm", "scone")
CELL = {
    "key", "variant", "training", "weights", "status", "device", "machine", "versions", "commit", "data", "seeds",
    "seconds", "notes", "config", "written", "metrics", "command", "remarks", "scores", "curves",
}  # fmt: skip


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return some_of("digits-c", tmp_path_factory.mktemp("digits"), METHODS)


@pytest.fixture(scope="module")
def page(digits, tmp_path_factory):
    return oodbench.report(digits, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def data(page):
    return chunks_of(page)


def ledger_of(folder):
    return Ledger(read_folder(folder)[0])


def made(results, out, **asked):
    return chunks_of(site.make(Reading(list(results), {}), out, **asked, command=COMMAND).path)


def measured(folder, methods=("scone", "erm"), seeds=(0, 1, 2), **fields):
    """Results with raw scores of eight images, which differ by method and seed."""
    found = []
    for i, method in enumerate(methods):
        for seed in seeds:
            correct = [1] * (5 + (i + seed) % 3) + [0] * (3 - (i + seed) % 3)
            result = a_result(method=method, seed=seed, variant=f"{method}-{fields.get('key', '')}", **fields)
            ood = [0.5 + 0.1 * i + 0.05 * seed, 0.9, 1.5]
            found.append(with_scores(result, folder, correct, id_scores=np.linspace(0, 1, 8), semantic_scores=ood))
    return found


def test_the_data_of_a_page_has_a_known_shape(data):
    index = data["index"]
    assert index["schema"] == 1 and index["files"] == {} and index["results"] == 24 and index["skipped"] == 0
    (board,) = index["boards"]
    assert (board["id"], board["title"], board["preset"], board["methods"]) == ("digits-c", "digits-c", None, 4)
    assert [each["title"] for each in board["columns"]] == ["unseen-digits", "photo-patches", "Average"]
    assert board["columns"][2]["over"] == ["unseen-digits", "photo-patches"]
    assert {"oodbench", "torch", "device", "processor", "metrics", "code: parts", "data: digits"} <= board[
        "facts"
    ].keys()
    own = data["board-0"]
    assert [row["name"] for row in own["rows"]] == ["MSP", "Energy", "ERM", "SCONE"]
    assert [row["network"] for row in own["rows"]] == [0, 0, 0, 1]
    assert own["seeds"] == [[[0, 1, 2]] * 4, [[0, 1, 2]] * 4, None]
    assert own["numbers"].keys() == set(own["metrics"]) and "aupr_in" in own["metrics"]
    assert own["numbers"]["auroc"][0].keys() == {
        *("mean", "note", "values", "margin", "low", "high", "over", "best", "near", "rank", "paper")
    }
    assert own["rows"][3]["paper"][2] == "ICML 2023" and own["rows"][3]["uses"] == ["wild images"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]) for row in own["rows"])
    assert own["numbers"]["aupr_in"][0].keys() == {"mean", "note", "values"}  # whose draws would take hours
    assert {name for name in data if name.startswith("cells-")} == {
        f"cells-0-{c}-{s}-0" for c in (0, 1) for s in range(3)
    }
    cells = data["cells-0-0-1-0"]
    assert cells.keys() == {"0", "1", "2", "3"} and cells["3"].keys() == CELL
    assert cells["3"]["command"] == "oodbench run --suite digits-c --methods scone --setting unseen-digits --seeds 1"
    assert [title for title, _ in cells["3"]["curves"]["panels"]][:3] == ["Loss", "Constraints", "Multipliers"]
    assert data["papers"]["tables"] == [] and [each["board"] for each in data["papers"]["left_out"]] == ["digits-c"]


def test_its_numbers_intervals_and_best_marks_are_those_of_the_table(digits, data):
    (table,) = tables.build(ledger_of(digits), tests=True, ranks=True)
    own = data["board-0"]
    assert [row.method for row in table.rows] == [row["method"] for row in own["rows"]]
    assert [table.group_of_row(i) for i in range(4)] == [row["group"] for row in own["rows"]]
    for i, row in enumerate(table.rows):
        for place, cell in enumerate(row.cells):
            column, metric = divmod(place, len(table.metrics))
            shown = own["numbers"][table.metrics[metric].name][column]
            assert f"{shown['mean'][i] / 100:.2f}" == cell.percent
            assert f"{shown['margin'][i] / 100:.2f}" == cell.margin_percent
            assert bool(shown["best"][i]) == cell.best and bool(shown["near"][i]) == cell.near
            assert shown["rank"][i] == [cell.rank.value, cell.rank.low, cell.rank.high]
            assert {int(s): v for s, v in shown["values"][i].items()} == {
                seed: round(float(f"{100 * value:.2f}") * 100) for seed, value in cell.sample.values.items()
            }
            assert (own["notes"][shown["note"][i] - 1] if shown["note"][i] else "") == "; ".join(cell.remarks)
        assert tuple(own["notes"][note - 1] for note in own["rows"][i].get("notes", ())) == row.notes
    assert any(row.notes for row in table.rows)


def test_differences_of_every_two_methods_are_those_of_a_comparison_with_either(digits):
    (board,) = boards(ledger_of(digits))
    some = standings(board, TRAINING_DOMAIN)
    for metric in ("covariate_acc", "fpr95"):
        column = Column(some.table.metrics[0], some.samples(0, metric))
        found = pairs.differences(column)
        assert len(found) == 6
        for baseline in METHODS:
            for method, difference in statistics.compare(column, baseline).items():
                reverse = (method, baseline) not in found
                pair = found[(baseline, method) if reverse else (method, baseline)]
                sign = -1 if reverse else 1
                ends = (pair.interval.low, pair.interval.high)[::sign]
                assert pair.interval.mean == pytest.approx(sign * difference.interval.mean, abs=1e-12)
                low, high = difference.interval.low, difference.interval.high
                assert [sign * each for each in ends] == pytest.approx([low, high], abs=1e-12)
                adjusted = pair.reversed_adjusted if reverse else pair.adjusted
                assert adjusted == pytest.approx(difference.adjusted, abs=1e-12)


def test_pairs_that_share_no_seed_or_have_nothing_to_be_judged_by_have_no_difference():
    metric = tables.build([a_result(metrics={"auroc": 0.5})], ["auroc"])[0].metrics[0]
    samples = {"a": Sample({0: 0.1}), "b": Sample({1: 0.2}), "c": Sample({0: 0.3})}
    assert pairs.differences(Column(metric, samples)) == {}


def test_of_more_than_forty_methods_only_the_baseline_and_the_best_are_compared_with_all(tmp_path):
    methods = [f"mine-{i:02}" for i in range(40)]
    results = measured(tmp_path, ["erm", *methods], seeds=(0, 1))
    (board,) = boards(Ledger(results))
    found = pairs_of(standings(board, TRAINING_DOMAIN))
    assert found["every"] is False
    lists = found["numbers"]["auroc"][0]
    named = {frozenset(pair) for pair in zip(lists["first"], lists["second"], strict=True)}
    in_all = set.intersection(*map(set, named))
    assert len(named) <= 40 + 39 and (found["baseline"] in in_all or len(named) == 79)
    (board,) = boards(Ledger([each for each in results if each.method != "mine-39"]))
    every = pairs_of(standings(board, TRAINING_DOMAIN))
    assert every["every"] is True and len(every["numbers"]["auroc"][0]["first"]) == 40 * 39 // 2


def test_the_same_results_give_the_same_bytes_wherever_they_lie_and_in_whatever_order(digits, page, tmp_path):
    shutil.copytree(digits, tmp_path / "elsewhere")
    reading = folders.read([tmp_path / "elsewhere"])
    again = site.make(replace(reading, results=reading.results[::-1]), tmp_path / "site", command=COMMAND)
    assert again.path.read_bytes() == page.read_bytes()
    assert again.size == page.stat().st_size


def test_a_page_asks_no_network_for_anything(page):
    text = page.read_text("utf-8")
    outside = set(re.findall(r"https?://[\w./-]+", text))
    assert outside == {
        "http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot",  # a name, and a comment
        "https://scholar.google.com/scholar",  # where the links of papers lead that a reader clicks
    }  # fmt: skip
    assert not re.search(r'(?:src|href)="(?!#)', text.partition("<script")[0])
    own = "".join(path.read_text("utf-8") for path in (document.HERE / "js").glob("*.js"))
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import\(|innerHTML|eval\(", own)
    assert not re.search(r"localStorage|sessionStorage|indexedDB|document\.cookie", own)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src &#x27;none&#x27;" in policy and "unsafe" not in policy


def test_what_others_wrote_cannot_become_part_of_the_page(tmp_path):
    evil = "</script><script>alert(1)</script>"
    result = a_result(method="evil", made={"display": evil, "group": f"<img src=x>{evil}"}, setting="unseen-digits",
                      metrics={"auroc": 0.5}, notes={"not_converged": evil}, status="ok")  # fmt: skip
    broken = a_result(method="woods", status="failed", error=evil, metrics={})
    out = site.make(Reading([result, broken], {}), tmp_path, title=f"</title>{evil}&", command=COMMAND)
    text = out.path.read_text("utf-8")
    assert "alert(1)" not in text.replace("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;", "")
    assert text.count("<script>") == 1 and "<title>&lt;/title&gt;" in text
    data = chunks_of(out.path)
    assert evil in [row["name"] for row in data["board-0"]["rows"]] and any(
        evil in note for note in data["board-0"]["notes"]
    )


def test_a_page_without_results_is_small_and_a_result_adds_little(page, data):
    whole = page.stat().st_size
    bare = len(document.document("t", [], chunks.chunk("index", {})))
    assert bare < 170_000
    assert (whole - bare) / data["index"]["results"] < 6_000


def test_results_that_must_not_be_ranked_together_are_on_boards_of_their_own(tmp_path):
    usual = {"versions": {"oodbench": "0.2", "torch": "2.13"}, "machine": {"cpu": "A"}, "metrics": {"auroc": 0.5}}
    others = [
        {"versions": {"oodbench": "0.1", "torch": "2.13"}},
        {"machine": {"cpu": "B"}},
        {"device": "cuda"},
        {"metrics_version": 2},
        {"preset": "smoke"},
        {"collection": "reference"},
    ]
    results = [a_result(**usual)] + [a_result(method="woods", **{**usual, **other}) for other in others]
    alone = boards(Ledger(results))
    assert sorted(len(each.ledger.results) for each in alone) == [1] * 7
    assert len({each.id for each in alone}) == 7 and len({each.title for each in alone}) == 7
    assert "digits-c, oodbench 0.1" in {each.title for each in alone}
    assert "digits-c, oodbench 0.2, device cpu, processor B" in {each.title for each in alone}
    unsaid = a_result(method="msp", metrics={"auroc": 0.5})  # says nothing of its machine, and so contradicts nothing
    (board,) = boards(Ledger([results[0], unsaid]))
    assert board.facts["processor"] == "A" and board.id == "digits-c"


def test_a_given_network_stands_beside_trained_ones_and_alone(tmp_path):
    given = a_given_result(suite="digits-c", semantic="unseen-digits", metrics={"auroc": 0.7, "fpr95": 0.5}, key="g")
    data = made([a_result(metrics={"auroc": 0.5, "fpr95": 0.5}), given], tmp_path / "both")
    rows = data["board-0"]["rows"]
    assert [row.get("given") for row in rows] == [None, "resnet18"] and rows[1]["group"] == "Your network"
    assert "oodbench evaluate --suite digits-c" in data["cells-0-0-0-0"]["1"]["command"]
    alone = made([a_given_result(metrics={"auroc": 0.7})], tmp_path / "alone")
    assert alone["index"]["boards"][0]["title"] == "resnet18" and "papers" in alone


def test_a_row_says_how_it_stands_only_where_that_is_known(tmp_path):
    sent = measured(tmp_path / "community", ["erm"], seeds=(0, 1))
    bare = made(sent, tmp_path / "a")["board-0"]["rows"][0]
    assert "standing" not in bare
    (tmp_path / "community" / "COLLECTION").write_text("community\n")
    assert made(sent, tmp_path / "b")["board-0"]["rows"][0] == {**bare, "standing": "reported"}
    (own,) = measured(tmp_path / "own", ["erm"], seeds=(1,))
    both = [replace(sent[0], key="k0"), replace(own, key="k1")]
    assert "standing" not in made(both, tmp_path / "c")["board-0"]["rows"][0]


def test_results_of_the_community_stand_beside_others_unless_these_have_the_method(tmp_path):
    measured(tmp_path / "ours", ["erm"], seeds=(0, 1))
    measured(tmp_path / "community", ["erm", "scone"], seeds=(0, 1))
    (tmp_path / "community" / "COLLECTION").write_text("community\n")
    data = chunks_of(oodbench.report([tmp_path / "ours", tmp_path / "community"], tmp_path / "site"))
    boards = [data[f"board-{i}"]["rows"] for i, _ in enumerate(data["index"]["boards"])]
    shown = [[(row["method"], row.get("standing")) for row in rows] for rows in boards]
    assert sorted(shown, key=len) == [[("erm", "reported")], [("erm", None), ("scone", "reported")]]


def test_a_failed_cell_says_why_and_damaged_scores_are_left_out(tmp_path):
    ok = measured(tmp_path / "r", ["erm"], seeds=(0,))[0]
    ok.path.with_suffix(".safetensors").write_bytes(b"no archive")
    failed = a_result(method="woods", status="failed", error="out of memory", traceback="Traceback", key="f")
    with pytest.warns(statistics.DamagedScoresWarning):
        cells = made([ok, failed], tmp_path / "site")["cells-0-0-0-0"]
    assert "scores" not in cells["0"] and "problem" not in cells["0"]
    assert cells["1"]["problem"] == "out of memory" and cells["1"]["traceback"] == "Traceback"


def test_more_results_than_one_file_should_hold_lie_beside_the_page(digits, tmp_path, monkeypatch):
    monkeypatch.setattr(site, "ONE_FILE", 10)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.js").write_text("var mine;")
    (tmp_path / "data" / "board-0-00000000.js").write_text('oodbenchChunk("board-0","old");\n')
    made_page = site.make(folders.read([digits]), tmp_path, command=COMMAND)
    files = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert "mine.js" in files and "board-0-00000000.js" not in files and made_page.files == len(files)
    (tmp_path / "data" / "mine.js").unlink()
    beside, inside = chunks_beside(made_page.path), chunks_of(made_page.path)
    assert inside.keys() == {"index"} and inside["index"]["files"].keys() == beside.keys()
    assert all((tmp_path / file).is_file() for file in inside["index"]["files"].values())
    single = site.make(folders.read([digits]), tmp_path, single=True, command=COMMAND)
    assert chunks_of(single.path).keys() == {"index", *beside}
    assert single.files == 1 and not (tmp_path / "data").exists()


def test_results_of_several_folders_are_kept_apart_by_their_names(digits, tmp_path):
    for name in ("alice", "bob"):
        shutil.copytree(digits / "digits-c" / "unseen-digits" / "erm", tmp_path / name)
    reading = folders.read([tmp_path / "alice", tmp_path / "bob"])
    assert [each.title for each in boards(Ledger(reading.results))] == ["digits-c (alice)", "digits-c (bob)"]
    shutil.copytree(tmp_path / "alice", tmp_path / "other" / "alice")
    names = {each.collection for each in folders.read([tmp_path / "alice", tmp_path / "other" / "alice"]).results}
    assert len(names) == 2


def test_quantiles_are_fine_where_scores_are_and_an_outlier_does_not_coarsen_them():
    rng = np.random.default_rng(0)
    for values in (
        rng.normal(size=3000),
        np.append(rng.normal(size=3000), 1e9),
        np.full(50, 3.0),
        np.append(np.zeros(90), 1e-12),
    ):
        values = np.sort(values)
        found = scores.steps(values)
        back = found["start"] + np.cumsum(found["steps"]) * found["unit"]
        exact = np.quantile(values, np.linspace(0, 1, scores.QUANTILES))
        assert np.abs(back - exact)[2:-2].max() <= 0.51 * found["unit"] + 1e-12
        assert found["unit"] <= max(np.ptp(values[1:-1]) / 1000, 1.0)


def test_thresholds_and_shares_are_exact():
    """Ten ID scores 0 to 9; the threshold of FPR flags nearest 5 %: none or one of ten, and one misses less."""
    labelled = {"predictions": np.zeros(10, np.int16), "labels": np.zeros(10, np.int16)}
    own = {
        "id": Scored(np.arange(10.0), **labelled),
        "covariate": Scored(np.arange(10.0) + 5, **labelled),
        "semantic": Scored(np.array([4.0, 8.5, 9.0, 20.0]), predictions=np.zeros(4, np.int16)),
    }
    found = scores.data_of(own)
    both = curve(own["id"].scores, own["semantic"].scores)
    assert scores.threshold_for(both, 0.05) == both.fpr95_threshold() == 8.5
    at_5, at_20 = found["thresholds"][2], found["thresholds"][4]
    assert at_5 == {"at": 8.5, "id": 1000, "covariate": 6000, "semantic": 7500}
    assert at_20 == {"at": 8.0, "id": 2000, "covariate": 7000, "semantic": 7500}
    assert found["curve"]["id"][0] == 0 and found["curve"]["semantic"][0] == 2500  # what no ID image reaches: 20
    assert found["curve"]["semantic"][-1] == found["curve"]["covariate"][-1] == 10000
    assert [found["splits"][name]["rows"] for name in scores.SPLITS] == [10, 10, 4]


def test_papers_are_compared_at_full_size_alone(tmp_path):
    some_of("mnist-c", tmp_path / "r", ["scone", "woods"], seeds=(0, 1, 2, 3))
    some_of("cifar10-c-cpu-effect", tmp_path / "r", ["erm", "scone"], seeds=(1, 2))
    some_of("pacs-cpu", tmp_path / "r", ["erm", "irm"], seeds=(0, 1))
    papers = chunks_of(oodbench.report(tmp_path / "r", tmp_path / "site"))["papers"]
    stand_in, full = papers["tables"]
    assert stand_in["title"] == "cifar10-c-cpu-effect" and "verdict" not in stand_in
    labels = {line["heads"][-1] for row in stand_in["rows"] for line in row["lines"]}
    assert "reported (SVHN)" in labels and "difference" not in labels
    assert any("direction only" in sentence for sentence in stand_in["sentences"])
    assert full["title"] == "mnist-c: mnist" and "Compared with the SCONE paper" in full["verdict"]
    verdicts = comparison.with_source(ledger_of(tmp_path / "r" / "mnist-c"))
    shown = [tuple(each) for row in full["rows"] for each in row["verdicts"] if each[0] != "missing"]
    assert shown == [(each.status, str(each)) for each in verdicts if each.status != "missing"] and shown
    assert {each["why"] for each in papers["left_out"]} == {"it is smaller than what papers report"}
    assert {each["title"] for each in papers["left_out"]} >= {"pacs-cpu"}


def test_sweeps_name_rows_and_columns_of_the_board(tmp_path):
    def one(method, setting="unseen-digits", margin=-10, **changed):
        what = {"values": {"margin": margin}, "changed": {} if method == "scone" else {"margin": margin}}
        values = {"metrics": {"auroc": 0.5, "fpr95": 0.5}, "made": {**what, "setting": changed}}
        return a_result(method=method, setting=setting, key=f"{method}{setting}", **values)

    margins = [one("scone"), one("scone,margin=-2.0", margin=-2.0), one("scone,margin=0", margin=0)]
    ratios = [one("scone", f"unseen-digits,pi_c={share}", pi_c=share) for share in (0.1, 0.9)]
    kinds = [one("scone", "unseen-digits,covariate=blur", covariate="blur")]
    data = made([*margins, *ratios, *kinds], tmp_path)
    own, found = data["board-0"], {each["kind"]: each for each in data["board-0"]["sweeps"]}
    assert found.keys() == {"hyperparameter", "ratio", "corruptions"} and data["index"]["boards"][0]["sweeps"] == 3
    swept = found["hyperparameter"]
    assert (swept["title"], swept["axis"], [value for value, _ in swept["points"]]) == ("SCONE", "margin", [-10, -2, 0])
    assert [own["rows"][row]["method"] for _, row in swept["points"]] == [
        "scone",
        "scone,margin=-2.0",
        "scone,margin=0",
    ]
    shares = [(value, own["columns"][column]["title"]) for value, column in found["ratio"]["points"]]
    assert shares == [(0.1, "unseen-digits,pi_c=0.1"), (0.5, "unseen-digits"), (0.9, "unseen-digits,pi_c=0.9")]
    assert {kind for kind, _, _ in found["corruptions"]["points"]} == {"gaussian_noise", "blur"}


def test_the_front_has_what_no_other_method_beats_in_both(tmp_path):
    points = {"a": (0.9, 0.5), "b": (0.8, 0.4), "c": (0.8, 0.5), "d": (0.7, 0.4), "e": (0.9, 0.5), "f": (0.1, 0.1)}
    results = [a_result(method=m, metrics={"covariate_acc": acc, "fpr95": fpr}) for m, (acc, fpr) in points.items()]
    own = made(results, tmp_path)["board-0"]
    assert [own["rows"][i]["method"] for i in own["front"][0]] == ["f", "b", "a", "e"]


def test_the_command_prints_where_the_page_is_and_how_large(digits, tmp_path):
    out = tmp_path / "site"
    said = command("report", digits, "--out", out, "--title", "Digits & more", "--single")
    assert said.status == 0 and said.err == ""
    assert re.fullmatch(rf"{re.escape(str(out))}/index\.html: 24 results on 1 board, one file, 0\.\d MB\n", said.out)
    assert "<title>Digits &amp; more</title>" in (out / "index.html").read_text("utf-8")
    assert command("report", digits, "--out", out).status == 0  # a page of ours is made anew


def test_wrong_input_is_refused_in_one_line_and_nothing_is_written(digits, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "index.html").write_text("<h1>mine</h1>")
    (tmp_path / "folder" / "index.html").mkdir(parents=True)
    out = ("--out", tmp_path / "site")
    for given, words in {
        (tmp_path / "none", *out): "there is no results folder",
        (tmp_path / "empty", *out): "there are no results in",
        (digits, "--out", tmp_path / "file"): "is a file; name a folder",
        (digits, "--out", tmp_path / "own"): "is not a page that oodbench made; choose another --out, or delete it",
        (digits, "--out", tmp_path / "folder"): "is a folder; choose another --out",
        (digits, *out, "--title", " "): "--title has 0 letters; give 1 to 200, or leave it out",
        (digits, *out, "--title", "x" * 201): "--title has 201 letters",
        (digits, *out, "--selection", "orcale"): "unknown selection 'orcale'; did you mean 'oracle'?",
    }.items():
        said = command("report", *given)
        assert said.status == 2 and said.out == "" and words in said.err and said.err.count("\n") == 1, said.err
    assert not (tmp_path / "site").exists()
    assert (tmp_path / "own" / "index.html").read_text() == "<h1>mine</h1>"
    with pytest.raises(UserError, match="unknown selection"):
        oodbench.report(digits, tmp_path / "site", selection="best")
    with pytest.raises(UserError, match="no results folder is named"):
        oodbench.report([], tmp_path / "site")


def test_the_function_and_the_room_of_its_name_are_one_and_torch_is_not_imported(digits, tmp_path):
    code = f"""
import sys, oodbench
first = oodbench.report({str(digits / "digits-c" / "unseen-digits" / "erm")!r}, {str(tmp_path / "a")!r})
import oodbench.report.tables as tables
from oodbench.report import layouts
assert oodbench.report({str(digits / "digits-c" / "unseen-digits" / "erm")!r}, out={str(tmp_path / "b")!r}) != first
assert first.read_bytes() == oodbench.report.page.site.Path({str(tmp_path / "b")!r}, "index.html").read_bytes()
assert tables.build and layouts.build and "torch" not in sys.modules
"""
    done = python("-c", code)
    assert done.status == 0, done.err


def test_an_unreadable_file_is_counted_on_the_page(digits, tmp_path):
    shutil.copytree(digits / "digits-c" / "unseen-digits" / "erm", tmp_path / "r")
    (tmp_path / "r" / "broken.json").write_text("{")
    said = command("report", tmp_path / "r", "--out", tmp_path / "site")
    assert said.status == 0 and "skipped" in said.err
    assert chunks_of(tmp_path / "site" / "index.html")["index"]["skipped"] == 1


def test_the_facts_of_a_board_say_what_a_reader_must_know():
    (first, *_), _ = read_folder(REFERENCE / "digits-c")
    facts = page_boards.facts_of(first)
    assert facts["precision"] == "fp32" and facts["network"].startswith("small-cnn") and facts["metrics"] == "version 2"
    assert json.dumps(facts) and Path("/") not in facts.values()
