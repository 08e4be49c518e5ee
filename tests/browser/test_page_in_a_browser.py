"""The page in a real browser: what every view says, that nothing is asked of a network, and how long it takes."""

import json
import os
import re
import shutil

import pytest
from made_results import a_result
from page_data import COMMAND, REFERENCE, chunks_of, some_of
from result_files import sealed

import oodbench
from oodbench.report.page import site
from oodbench.results.folder import Reading, read_folder

pytestmark = pytest.mark.slow
LEADERBOARD = "#leaderboard?board=digits-c&setting=unseen-digits"
CELL = "#cell?board=digits-c&setting=unseen-digits&method=scone&seed=1"
COMPARE = "#compare?board=digits-c&setting=unseen-digits&a=scone&b=erm"
VIEWS = [LEADERBOARD, "#leaderboard?board=digits-c&setting=all&explain=1&against=erm", "#tradeoff?board=digits-c", CELL,
         COMPARE, "#sweeps?board=digits-c-swept", "#papers"]  # fmt: skip
EVIL = "</script><img src=x onerror=alert(1)>"


def swept():
    """Results of three margins, two shares and two kinds of corruption."""
    margins = {"scone": -10, "scone,margin=-2": -2, "scone,margin=0": 0}
    for number, (method, margin) in enumerate(margins.items()):
        changed = {} if method == "scone" else {"margin": margin}
        for name, setting in {"": {}, ",pi_c=0.1": {"pi_c": 0.1}, ",covariate=blur": {"covariate": "blur"}}.items():
            yield a_result(
                method=method, setting=f"unseen-digits{name}", preset="swept", key=f"{method}{name}",
                made={"values": {"margin": margin}, "changed": changed, "setting": setting},
                metrics={
                    "auroc": 0.9, "fpr95": 0.0002 * 20**number, "covariate_acc": 0.8 - number / 100, "id_acc": 0.9,
                },
            )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    some_of("digits-c", folder, ["msp", "energy", "knn", "odin", "erm", "woods", "scone", "bn-adapt"])
    some_of("mnist-c", folder, ["scone", "woods"], seeds=(0, 1, 2, 3))
    hostile = a_result(method="evil", made={"display": EVIL, "group": EVIL}, preset="hostile", metrics={"auroc": 0.5})
    failed = a_result(method="woods", preset="hostile", status="failed", error=EVIL, traceback="Traceback", metrics={})
    return [*read_folder(folder)[0], *swept(), hostile, failed]


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return site.make(
        Reading(results, {}), tmp_path_factory.mktemp("site"), title=f"Digits {EVIL}", command=COMMAND
    ).path


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    """The same as a folder with its data beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "ONE_FILE", 5)
        return site.make(Reading(results, {}), tmp_path_factory.mktemp("site"), command=COMMAND).path


@pytest.mark.parametrize("kind", ["page", "folder"])
def test_every_view_opens_without_an_error_or_a_request_to_a_network(kind, browser, request):
    path = request.getfixturevalue(kind)
    browser.said(), browser.asked()
    for view in VIEWS:
        browser.open(path, view)
        assert "cannot be shown" not in browser.text
    browser.open(path)
    for view in VIEWS:
        browser.go(view)
        assert "cannot be shown" not in browser.text
    assert browser.said() == []
    assert {url.partition(":")[0] for url in browser.asked()} <= {"file", "data", "blob", "about"}


def test_the_leaderboard_shows_sorts_filters_and_marks(page, browser):
    own = chunks_of(page)["board-0"]
    browser.open(page, LEADERBOARD)
    names = [row["name"] for row in own["rows"]]
    values = own["numbers"]["auroc"][0]["mean"]
    order = sorted(range(len(names)), key=lambda i: (-values[i], i))
    assert browser.texts("h1")[0].startswith("digits-c") and "8 methods, by AUROC" in browser.text
    assert browser.texts("tbody th.name a") == [names[i] for i in order]
    ranks = own["numbers"]["auroc"][0]["rank"]
    shown = [f"{value}[{low}]" if low == high else f"{value}[{low}–{high}]" for value, low, high in ranks]
    assert browser.texts("tbody td.rank") == [shown[i] for i in order]
    browser.go(f"{LEADERBOARD}&sort=tables")
    assert "8 methods, in the order of the tables" in browser.text
    assert browser.texts("tbody th.name a") == names
    mean = own["numbers"]["covariate_acc"][0]["mean"]
    assert browser.texts("tbody td.number:nth-of-type(3) .mean") == [f"{value / 100:.2f}" for value in mean]
    bold = browser.texts("tbody td.best:nth-of-type(3) .mean")
    best = own["numbers"]["covariate_acc"][0]["best"]
    assert bold == [f"{value / 100:.2f}" for value, is_best in zip(mean, best, strict=True) if is_best]
    browser.click("thead th:nth-of-type(7) button")  # AUROC
    assert (
        browser.run("return document.querySelector('thead th:nth-of-type(7)').getAttribute('aria-sort')")
        == "descending"
    )
    assert browser.texts("tbody th.name a") == [names[i] for i in order]
    assert "sort=-auroc%400" in browser.run("return location.hash")
    code = (
        "const s = document.getElementById('search'); s.focus(); s.value = 'sco'; s.dispatchEvent(new Event('input'))"
    )
    browser.run(f"delete document.documentElement.dataset.ready; {code}")
    browser.until("return document.documentElement.dataset.ready")
    assert browser.texts("tbody th.name a") == ["SCONE"] and "1 method of 8" in browser.text
    assert browser.run("return document.activeElement.id") == "search"  # typing goes on
    browser.go(f"{LEADERBOARD}&seeds=each")
    assert len(browser.texts("tbody th.name a")) == 24
    browser.go("#leaderboard?board=digits-c&setting=Average")
    assert browser.texts("h1 small") == ["Average"]
    browser.go(f"{LEADERBOARD}&explain=1")
    assert (
        "share of semantic OOD images missed at the threshold where the share of ID images flagged is closest to 5 %"
        in browser.text
    )


def test_a_forest_plot_draws_the_metric_that_sorts_with_intervals_and_papers_are_linked(page, browser):
    own = chunks_of(page)["board-0"]
    browser.size(1600)
    browser.open(page, f"{LEADERBOARD}&sort=fpr95")
    numbers = own["numbers"]["fpr95"][0]
    order = sorted(range(len(own["rows"])), key=lambda i: (numbers["mean"][i], i))
    drawn = browser.texts("svg.forest-line title")
    assert [text.split(": ")[1].split(",")[0] for text in drawn] == [f"{numbers['mean'][i] / 100:.2f}" for i in order]
    dots = "return [...document.querySelectorAll('svg.forest-line circle')].map((e) => e.getAttribute('cx'))"
    middles = [float(x) for x in browser.run(dots)]
    assert middles == sorted(middles) and len(middles) > 5
    papers = {row["name"]: row["paper"][2] for row in own["rows"] if "paper" in row}
    assert papers["SCONE"] == "ICML 2023" and browser.texts("td.paper a") == [
        papers[name] for name in browser.texts("tbody th.name a") if name in papers
    ]
    assert "wild images" in browser.texts("td.data")
    browser.size(1200)


def test_a_phone_shows_fpr_and_auroc_in_the_first_view_and_keeps_the_name_in_sight(page, browser):
    browser.size(400)
    browser.open(page, LEADERBOARD)
    heads = browser.run(
        "return [...document.querySelectorAll('thead th')].filter((e) => e.offsetWidth"
        " && e.getBoundingClientRect().right <= innerWidth).map((e) => e.textContent.trim())"
    )
    assert any(head.startswith("FPR") for head in heads) and any(head.startswith("AUROC") for head in heads)
    left = "return document.querySelector('tbody th.name').getBoundingClientRect().left"
    browser.run("document.querySelector('.scroll').scrollLeft = 200")
    assert 0 <= browser.run(left) < 40
    browser.size(1200)


def test_tabs_that_would_be_empty_are_absent_and_compare_opens_with_what_differs_most(page, browser):
    data = chunks_of(page)
    browser.open(page)
    shown = browser.texts("#views a")
    assert ("Papers" in shown) == bool(data["papers"]["tables"]) and {"Leaderboard", "Compare"} <= {*shown}
    browser.go("#compare?board=digits-c&setting=unseen-digits")
    assert browser.text.count("better") + browser.text.count("worse") >= 2


def test_differences_from_a_baseline_are_marked_as_the_comparison_has_them(page, browser):
    data = chunks_of(page)
    own, pairs = data["board-0"], data["pairs-0"]["numbers"]["covariate_acc"][0]
    erm = [row["method"] for row in own["rows"]].index("erm")
    held = set()
    for first, second, holds in zip(pairs["first"], pairs["second"], pairs["holds"], strict=True):
        if (second == erm and holds & 1) or (first == erm and holds & 2):
            held.add(own["rows"][first if second == erm else second]["name"])
    browser.open(page, f"{LEADERBOARD}&against=erm&metrics=covariate_acc")
    marked = browser.run(
        "return [...document.querySelectorAll('tbody tr')].filter((r) => r.querySelector('.better, .worse'))"
        ".map((r) => r.querySelector('th a').textContent)"
    )
    assert set(marked) == held and "p < .05 after Holm" in browser.text


def test_two_selected_rows_lead_to_their_comparison(page, browser):
    browser.open(page, LEADERBOARD)
    assert "Select two rows to compare them." in browser.text
    for name in ("SCONE", "ERM"):
        browser.click(f"input[aria-label='Select {name} to compare']")
    browser.click(".above a.button")
    assert browser.texts("h1")[0].startswith("SCONE − ERM")
    browser.open(page, COMPARE)
    pairs = chunks_of(page)["pairs-0"]["numbers"]["covariate_acc"][0]
    rows = [row["method"] for row in chunks_of(page)["board-0"]["rows"]]
    place = list(zip(pairs["first"], pairs["second"], strict=True)).index((rows.index("scone"), rows.index("erm")))
    shown = browser.texts(".board tbody tr:first-child td:nth-of-type(3)")[0]
    texts = [f"{pairs[name][place] / 100:+.2f}".replace("-", "−") for name in ("mean", "low", "high")]
    assert shown == f"{texts[0]} [{texts[1]}, {texts[2]}]"
    assert "seeds and images, 3 seeds" in browser.text and len(browser.texts("svg.ridges")) == 2
    assert "seed 0" in browser.text and "The line is the FPR threshold" in browser.text


def test_a_cell_shows_scores_training_and_where_it_comes_from(page, browser):
    found = chunks_of(page)["cells-0-0-1-0"]
    own = next(cell for cell in found.values() if "--methods scone" in cell["command"])
    browser.open(page, CELL)
    assert browser.texts("h1 small") == ["digits-c, unseen-digits, seed 1"]
    titles = ("Metrics", "Scores", "What a threshold flags", "Training", "Reproduce it", "Data fingerprints")
    assert all(words in browser.text for words in (*titles, own["command"]))
    exact = own["scores"]["thresholds"][2]
    flagged = browser.texts(".beside table:first-child td")
    assert flagged == [f"{exact[name] / 100:.2f}" for name in ("id", "covariate", "semantic")]
    browser.run(
        "const s = document.querySelector('input[type=range]'); s.value = 0; s.dispatchEvent(new Event('input'))"
    )
    assert all(re.fullmatch(r"≈ (99|100)\.\d", text) for text in browser.texts(".beside table:first-child td"))
    assert "percent flagged" in browser.run(
        "return document.querySelector('input[type=range]').getAttribute('aria-valuetext')"
    )
    browser.run("document.querySelectorAll('button.plain')[4].click()")
    last = own["scores"]["thresholds"][4]
    assert browser.texts(".beside table:first-child td")[0] == f"{last['id'] / 100:.2f}"
    kept = browser.run("return location.hash")
    assert f"t={last['at']}" in kept
    browser.open(page, kept)  # a link shows what its sender saw
    assert browser.texts(".beside table:first-child td")[0] == f"{last['id'] / 100:.2f}"
    assert len(browser.texts(".uplot canvas")) >= 5
    assert browser.texts(".panel figcaption")[:2] == [
        "ROC: share flagged against share of ID flagged, %",
        "The same curves up to 10 % of ID",
    ]
    assert own["data"]["sets"]["digits"]["fingerprint"] in browser.texts(".provenance")[0]
    browser.go("#cell?board=digits-c&method=nobody")
    assert "No such cell" in browser.text


def test_the_trade_off_names_the_front_and_joins_what_shares_a_network(page, browser):
    own = chunks_of(page)["board-0"]
    browser.open(page, "#tradeoff?board=digits-c&setting=unseen-digits")
    front = [own["rows"][i]["name"] for i in own["front"][0]]
    shown = browser.run("return [...document.querySelectorAll('.front li')].map((e) => e.firstChild.textContent)")
    assert shown == front
    assert len(browser.texts(".network")) == 1 and "5 methods" in browser.text
    assert len(browser.texts("svg.scatter a")) == 8
    browser.go("#tradeoff?board=digits-c-swept&x=log")
    assert "logarithmic" in browser.texts("svg.scatter")[0]


def test_sweeps_have_panels_and_a_heat_map(page, browser):
    browser.open(page, "#sweeps?board=digits-c-swept")
    captions = browser.texts(".panel figcaption")
    assert {"OOD Acc. ↑, %", "FPR ↓, %, logarithmic"} <= set(captions)
    assert [text.partition("unseen")[0] for text in browser.texts("h2")][:2] == [
        "SCONE: margin",
        "Covariate share of the wild mixture, π_c",
    ]
    assert "blur" in browser.texts(".heat thead")[0]
    browser.go("#sweeps?board=digits-c")
    assert "This board has no sweep" in browser.text and "digits-c-swept" in browser.text


def test_papers_have_reported_numbers_and_verdicts(page, browser):
    browser.open(page, "#papers")
    assert "mnist-c: mnist" in browser.text and "Compared with the SCONE paper" in browser.text
    assert set(browser.texts("span.verdict")) <= {"agrees", "differs", "cannot tell", "suspect"}
    assert "reported" in browser.texts(".paper .below .name")


def test_what_others_wrote_is_shown_as_text(page, browser):
    browser.open(page, "#leaderboard?board=digits-c-hostile")
    assert EVIL in browser.texts("tbody th.name a") and f"Digits {EVIL}" in browser.texts(".title")
    browser.open(page, "#cell?board=digits-c-hostile&setting=unseen-digits&method=woods&seed=0")
    assert EVIL in browser.text and not browser.run("return document.querySelectorAll('img').length")
    assert browser.said() == []


def test_the_keyboard_reaches_everything(page, browser):
    from selenium.webdriver.common.keys import Keys

    browser.open(page, LEADERBOARD)
    browser.run("document.querySelector('tbody th a').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert browser.driver.switch_to.active_element.text == browser.texts("tbody th.name a")[1]
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.until("return location.hash.startsWith('#cell')")
    browser.until("return document.querySelector('input[type=range]')")
    browser.run("document.querySelector('input[type=range]').focus()")
    before = browser.texts("output")[0]
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.texts("output")[0] != before
    browser.driver.back()
    browser.until("return location.hash.startsWith('#leaderboard')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, browser, axe, theme):
    browser.theme(theme)
    found = []
    for view in VIEWS:
        browser.open(page, view)
        browser.run(axe)
        result = browser.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
        )
        serious = [each for each in result["violations"] if each["impact"] in ("serious", "critical")]
        found += [(view, each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in serious]
    browser.theme("light")
    assert not found, json.dumps(found, indent=1)


@pytest.mark.parametrize("width", [400, 1200, 1600])
def test_no_view_is_wider_than_the_window(page, browser, width):
    browser.size(width)
    for view in VIEWS:
        browser.open(page, view)
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0, view
    browser.size(1200)


def test_on_paper_there_are_all_rows_and_no_controls(page, browser):
    browser.open(page, LEADERBOARD)
    browser.theme("light", "print")
    shown = [browser.run("return getComputedStyle(document.querySelector(arguments[0])).display", each)
             for each in (".toolbar", "thead th button")]  # fmt: skip
    browser.theme("light")
    assert shown[0] == "none" != shown[1] and len(browser.texts("tbody th.name a")) == 8


def test_ten_thousand_results_are_ready_sorted_and_filtered_at_once(browser, tmp_path):
    """Budgets are 1.5 s and 250 ms on two idle cores; a busy machine has three times as long."""
    methods = {result.method for result in read_folder(REFERENCE / "digits-c-scorers")[0]}
    some_of("digits-c-scorers", tmp_path / "one", methods, seeds=range(10))
    for copy in range(14):
        for path in (tmp_path / "one").rglob("*.json"):
            values = json.loads(path.read_text())
            method = values["config"]["method"]
            values["method"] = method["name"] = method["scorer"]["name"] = f"{method['name']}-{copy}"
            method["display"] += f" {copy}"
            values["key"] = f"{int(values['key'], 16) ^ copy:016x}"
            target = tmp_path / "many" / str(copy) / values["setting"] / values["method"] / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(sealed(values))
            for suffix in (".safetensors", ".jsonl"):
                os.link(path.with_suffix(suffix), target.with_suffix(suffix))
            shared = f"network-{values['network']}.safetensors"
            if not (target.parent.parent / shared).exists():
                os.link(path.parent.parent / shared, target.parent.parent / shared)
    path = oodbench.report(tmp_path / "many", tmp_path / "site")
    assert len(list((path.parent / "data").iterdir())) > 100 and path.stat().st_size < 1_000_000
    ready = min(browser.open(path, "#leaderboard?seeds=each") for _ in range(3))
    sort = browser.milliseconds("document.querySelectorAll('thead button')[3].click()")
    search = "const s = document.getElementById('search'); s.value = 'knn'; s.dispatchEvent(new Event('input'))"
    filtered = browser.milliseconds(search)
    shown = re.search(r"([\d,]+) runs", browser.text)[1]
    print(f"ready {ready} ms, sort {sort:.0f} ms, filter {filtered:.0f} ms, {shown} lines after the filter")
    assert ready < 4_500 and sort < 750 and filtered < 750
    assert browser.run("return document.querySelectorAll('*').length") < 5_000
    shutil.rmtree(tmp_path / "many")
