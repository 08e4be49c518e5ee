"""Result files: written whole, read back, documented, and never trusted."""

import json
import random
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from result_files import sealed

from oodbench.data import parts
from oodbench.errors import UserError
from oodbench.report import render, tables
from oodbench.results.folder import read_folder
from oodbench.results.metrics import METRICS, Scored, evaluate
from oodbench.results.result import SCHEMA, Result, Unreadable, read
from oodbench.results.stored import read_scores, write
from oodbench.running import execution, trained
from oodbench.seeds import derive

DOC = Path(__file__).parents[2] / "docs" / "results.md"


@pytest.fixture
def real(results):
    return min(results.rglob("msp/seed0-*.json"))


@pytest.fixture
def file(real, tmp_path):
    """A copy that a test may damage."""
    copy = tmp_path / "suite" / "setting" / "msp" / real.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(real.read_bytes())
    return copy


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOC.read_text(), re.MULTILINE | re.DOTALL)[1]


def first_column(title):
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall("`(.+?)`", row)]


def test_a_result_reads_back_as_it_was_written(real, tmp_path):
    result = read(real)
    assert result.path == real and result.schema == SCHEMA and result.status == "ok"
    again = tmp_path / "suite" / "setting" / "deep" / "again.json"
    written = write(result, again, read_scores(result), [{"epoch": 0, "loss": 0.5}, {"epoch": 1, "loss": 0.25}])
    assert read(again) == result == written
    assert again.read_bytes() == real.read_bytes()
    assert [json.loads(line)["loss"] for line in again.with_suffix(".jsonl").read_text().splitlines()] == [0.5, 0.25]


def test_raw_scores_read_back_bit_for_bit(real, tmp_path):
    scores = {
        "id": Scored(np.float32([0.1, -7]), np.int16([0, 7]), np.int16([0, 1]), np.float32([0.5, np.nan])),
        "covariate": Scored(np.float16([3]), np.int16([2]), np.int16([2])),
        "semantic": Scored(np.float64([np.pi]), np.int16([3])),
    }
    path = tmp_path / "suite" / "setting" / "msp" / "r.json"
    found = read_scores(write(read(real), path, scores, []))
    assert found.keys() == scores.keys() and found["semantic"].labels is None
    for split, scored in scores.items():
        for name, array in vars(scored).items():
            if array is not None:
                read_back = getattr(found[split], name)
                assert read_back.dtype == array.dtype and read_back.tobytes() == array.tobytes()
    assert not path.with_suffix(".jsonl").exists()


def test_a_failed_cell_is_a_result_without_scores(real, tmp_path):
    failed = replace(read(real), status="failed", error="the loss became nan", metrics={}, weights=None)
    path = tmp_path / "suite" / "setting" / "msp" / "r.json"
    written = write(failed, path, {}, [])
    assert read(path) == written == replace(failed, arrays={}, network=None)
    assert [p.name for p in path.parent.iterdir()] == ["r.json"]


def test_a_metric_that_is_no_number_is_never_written(real, tmp_path):
    with pytest.raises(ValueError):
        write(replace(read(real), metrics={"auroc": float("nan")}), tmp_path / "r.json", {}, [])
    assert not list(tmp_path.iterdir())


def test_the_numbers_do_not_depend_on_where_the_files_lie(real):
    text = real.read_text()
    assert str(real.parent) not in text and str(Path.home()) not in text and str(DOC.parent.parent) not in text


def test_the_page_lists_exactly_the_fields_that_are_stored(real):
    stored = json.loads(real.read_bytes())
    documented = first_column("Fields of the JSON")
    assert len(documented) == len(set(documented))
    assert (
        set(documented) == set(stored) == {f.name for f in fields(Result)} - {"path", "collection", "pack"} | {"digest"}
    )
    for field, more in (("config", ()), ("data", stored["data"]["parts"]["id"]), ("seconds", ())):
        row = next(line for line in section("Fields of the JSON").splitlines() if line.startswith(f"| `{field}`"))
        assert {*stored[field], *more} <= set(re.findall("`(.+?)`", row)), field


def test_every_seed_that_a_run_derives_is_stored(real):
    text = "".join(Path(module.__file__).read_text() for module in (execution, trained, parts))
    used = re.findall(r'derive\(\w*\.?seed, "(\w+)"\)', text) + re.findall(r'(?:shuffled|divided)\(.*, "(\w+)"\)', text)
    stored = read(real).seeds
    assert set(used) == set(stored) and len(used) >= 6
    assert stored == {purpose: derive(read(real).seed, purpose) for purpose in stored}


def test_the_page_lists_exactly_the_metrics_and_arrays(real):
    assert set(first_column("Metrics")) == set(METRICS) == set(read(real).metrics)
    names = set(read(real).arrays)
    kinds = re.findall("`<split>_(.+?)`", section("Raw scores"))
    assert {f"{split}_{kind}" for split in ("id", "covariate", "semantic") for kind in kinds} == {
        *names,
        "semantic_labels",
    }
    assert evaluate(**read_scores(read(real))) == read(real).metrics


def test_the_page_describes_the_log(real):
    for line in real.with_suffix(".jsonl").read_text().splitlines():
        assert json.loads(line).keys() == {"epoch", "lr", "loss"} <= set(re.findall("`(.+?)`", section("Training log")))


def test_the_page_draws_the_folder_as_it_is(results, real):
    drawing = re.search("```\n(results/.*?)```", DOC.read_text(), re.DOTALL)[1]
    for ending in sorted({p.suffix for p in results.rglob("*") if p.is_file()} - {".lock"}):
        assert ending in drawing, ending
    assert real.relative_to(results).parts[:-1] in {
        ("digits-c-smoke", s, "msp") for s in ("unseen-digits", "photo-patches")
    }
    assert re.fullmatch(r"seed0-[0-9a-f]{8}\.json", real.name) and read(real).key.startswith(real.stem[6:])


def test_the_python_on_the_page_runs(copied, monkeypatch):
    blocks = re.findall("```python\n(.*?)```", DOC.read_text(), re.DOTALL)
    copied.rename(copied.with_name("results"))
    monkeypatch.chdir(copied.parent)
    variables: dict = {}
    for code in blocks:
        exec(code, variables)
    assert len(blocks) == 2 and isinstance(variables["result"], Result)
    assert len(variables["cells"]) == len(list(Path("results").rglob("seed*.json")))


def with_values(file, **values):
    stored = json.loads(file.read_bytes())
    file.write_text(json.dumps({k: v for k, v in {**stored, **values}.items() if v is not ...}))


DAMAGES = {
    "empty": (lambda f: f.write_bytes(b""), "truncated, or not JSON"),
    "truncated": (lambda f: f.write_bytes(f.read_bytes()[:700]), "truncated, or not JSON"),
    "binary": (lambda f: f.write_bytes(b"\x80\x02\xff"), "truncated, or not JSON"),
    "of half a character": (lambda f: with_values(f, suite="\ud800"), "truncated, or not JSON"),
    "nested too deeply": (lambda f: f.write_text("[" * 100_000), "truncated, or not JSON"),
    "another program's": (lambda f: f.write_text('{"loss": 1}'), "not an oodbench result"),
    "a list": (lambda f: f.write_text("[1, 2]"), "not an oodbench result"),
    "of a truth for a schema": (lambda f: with_values(f, schema=True), "not an oodbench result"),
    "of the future": (
        lambda f: with_values(f, schema=SCHEMA + 1, news="?"),
        f"written by a newer oodbench (schema {SCHEMA + 1}, this one reads {SCHEMA}); upgrade oodbench",
    ),
    "of no schema": (lambda f: with_values(f, schema=0), "not a result of schema 3"),
    "of version 0.1": (
        lambda f: with_values(f, schema=1),
        "made by oodbench 0.1; run it again, or read it with oodbench 0.1",
    ),
    "short of a field": (lambda f: with_values(f, seed=...), "missing or unknown field 'seed'"),
    "richer by a field": (lambda f: with_values(f, extra=1), "missing or unknown field 'extra'"),
    "with text for a number": (lambda f: with_values(f, seed="0"), "damaged: 'seed': expected a whole number, got '0'"),
    "with a number for a name": (lambda f: with_values(f, method=1), "damaged: 'method': expected text, got 1"),
    "with an unknown status": (lambda f: with_values(f, status="fine"), "damaged: 'status': expected 'ok' or 'failed'"),
    "with a list of metrics": (lambda f: with_values(f, metrics=[1]), "damaged: 'metrics': expected a mapping"),
    "with text for a metric": (lambda f: with_values(f, metrics={"auroc": "1"}), "damaged: 'metrics.auroc': expected"),
    "with NaN": (lambda f: with_values(f, metrics={"auroc": float("nan")}), "damaged: 'metrics.auroc': expected"),
    "with a giant": (
        lambda f: with_values(f, metrics={"auroc": 10**400}),
        "damaged: 'metrics.auroc': expected a number",
    ),
    "without a configuration": (lambda f: with_values(f, config=[]), "damaged: 'config': expected a mapping, got []"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_file_that_is_no_result_is_reported_and_left_alone(kind, file, real):
    damage, reason = DAMAGES[kind]
    damage(file)
    content = file.read_bytes()
    good = file.with_name("good.json")
    good.write_bytes(real.read_bytes())
    found, problems = read_folder(file.parent)
    assert [r.path for r in found] == [good]
    assert list(problems) == [file] and reason in problems[file] and "\n" not in problems[file]
    assert file.read_bytes() == content


def test_what_cannot_be_opened_is_reported(tmp_path):
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    assert read_folder(tmp_path) == ([], {tmp_path / "gone.json": "cannot be read: No such file or directory"})


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_new_result_keeps_what_it_replaces_aside_unless_it_is_a_result(kind, file, real):
    DAMAGES[kind][0](file)
    content = file.read_bytes()
    bare = replace(read(real), arrays={}, network=None)
    for _ in range(2):
        write(bare, file, {}, [])
        assert read(file) == bare
    assert {p.name for p in file.parent.iterdir()} == {file.name, f"{file.name}.unreadable"}
    assert file.with_name(f"{file.name}.unreadable").read_bytes() == content
    file.write_text("damaged once more")
    write(bare, file, {}, [])
    assert file.with_name(f"{file.name}.unreadable").read_bytes() == content
    assert file.with_name(f"{file.name}.unreadable1").read_text() == "damaged once more"


def test_hidden_and_temporary_files_are_not_results(file):
    for name in (".hidden.json", ".seed0-1.json.abc.tmp", "table.md", "x.json.unreadable", "x.jsonl"):
        file.with_name(name).write_text("{")
    (file.parent / ".cache").mkdir()
    (file.parent / ".cache" / "a.json").write_text("{")
    found, problems = read_folder(file.parent)
    assert len(found) == 1 and not problems


def test_a_method_may_be_called_weights(file):
    home = file.parent / "digits-c" / "weights"
    home.mkdir(parents=True)
    file.rename(home / file.name)
    assert len(read_folder(file.parent)[0]) == 1


def test_a_folder_that_is_not_there_is_told_in_one_line(tmp_path):
    with pytest.raises(UserError, match=r"there is no results folder '.*'; make one with: oodbench run"):
        read_folder(tmp_path / "results")


def survives(path):
    """Whether it reads as a result; then every table of it can be made. Any exception but Unreadable is a bug."""
    try:
        result = read(path)
    except Unreadable as reason:
        assert str(reason) and str(reason).isprintable()
        return False
    for format in render.FORMATS:
        render.render(tables.build([result]), format).encode()
    return True


def test_no_beginning_of_a_result_reads_as_one(file):
    whole = file.read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        assert not survives(file), length


def test_no_flipped_bytes_read_as_another_result(file):
    whole, chance = file.read_bytes(), random.Random(0)
    result = read(file)
    for _ in range(600):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 20))):
            damaged[chance.randrange(len(damaged))] = chance.choice((chance.randrange(256), *b'{}[]",:0 \\e-'))
        file.write_bytes(damaged)
        assert not survives(file) or read(file) == result


def test_an_edited_number_is_named_and_other_spaces_are_not(file):
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values))
    assert read(file).metrics == values["metrics"]
    values["metrics"]["auroc"] = 0.9999
    file.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")
    found, problems = read_folder(file.parent)
    assert not found and "edited after it was written" in problems[file]
    file.write_text(sealed(values))
    assert read(file).metrics["auroc"] == 0.9999


ODD = [
    None,
    True,
    0,
    -1,
    2**70,
    10**400,
    0.5,
    float("nan"),
    "",
    "text",
    "\ud800",
    "a\nb\x1b[31m",
    [],
    [1],
    {},
    {"a": []},
]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def test_reading_survives_any_swapped_value(file):
    stored = json.loads(file.read_bytes())
    everywhere = [path for path in places(stored) if path]
    outcomes = set()
    for i, path in enumerate(everywhere):
        is_read = len(path) == 1 or path[0] in ("metrics", "seconds") or (path[0] == "config" and len(path) == 2)
        for odd in ODD if is_read else [ODD[i % len(ODD)]]:
            changed = json.loads(json.dumps(stored))
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = odd
            file.write_text(sealed(changed))
            outcomes.add(survives(file))
    assert outcomes == {True, False}


def test_reading_survives_missing_and_renamed_fields(file):
    stored = json.loads(file.read_bytes())
    for name in stored:
        for changed in (
            {k: v for k, v in stored.items() if k != name},
            {(f"{k}\n" if k == name else k): v for k, v in stored.items()},
        ):
            file.write_text(json.dumps(changed))
            assert not survives(file)


def test_results_of_a_newer_schema_are_not_taken_for_done(real, file):
    assert read(real).schema == SCHEMA
    with_values(file, schema=SCHEMA + 1)
    with pytest.raises(Unreadable, match="newer"):
        read(file)
