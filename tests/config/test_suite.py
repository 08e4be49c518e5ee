"""Suite files: ours are valid, a user's works like them, and whatever is wrong with one is told with file and line."""

from dataclasses import replace

import pytest
from command_line import assert_done, assert_refused, oodbench

from oodbench.config import suite as suites
from oodbench.config.suite import Source
from oodbench.errors import UserError

SUITE = """\
title: A suite of a user's own.
id: {dataset: digits, classes: [0, 1, 2, 3]}
semantic:
  hard: {dataset: digits, classes: [8, 9]}
  easy:
    dataset: photo-patches
corruptions: digits_c
network:
  name: small-cnn
  options: {width: 4}
recipes:
  scratch: {epochs: 30, batch_size: 64, lr: 1e-1}
  finetune: {epochs: 20, batch_size: 64, lr: 0.01,
             schedule: steps}
splits:
  id_validation: 0.2
defaults: {covariate: gaussian_noise, severity: 3, pi_c: 0.5, pi_s: 0.1}
settings:
  - semantic: hard
  - {semantic: easy, severity: 5, pi_c: 0.2}
presets:
  smoke:
    recipes: {scratch: {epochs: 1}, finetune: {epochs: 1}}
  noisy:
    defaults:
      severity: 4
"""


@pytest.fixture
def suite_file(tmp_path):
    """A function that writes the suite above with one text in place of another."""

    def write(old="", new=""):
        assert not old or SUITE.count(old) == 1
        path = tmp_path / "mine.yaml"
        path.write_text(SUITE.replace(old, new) if old else SUITE, encoding="utf-8")
        return path

    return write


def plan_of(path, *more):
    return oodbench("run", "--suite", path, "--methods", "msp", "--dry-run", *more)


def refusal(function, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", suites.suite_files())
def test_every_suite_of_ours_is_valid_with_every_preset(name):
    suite = suites.load(name)
    assert suite.label == suite.name == name and suite.settings and suite.contents.title.endswith(".")
    for preset in suite.contents.presets:
        assert suites.load(name, preset).label == f"{name}-{preset}"


def test_a_suite_file_of_the_users_works_like_ours(suite_file, tmp_path, monkeypatch):
    path = suite_file()
    suite = suites.load(str(path))
    assert suite.name == "mine" and suite.path == path
    assert suite.contents.recipes.scratch.lr == 0.1  # YAML 1.1 would take 1e-1 for text
    assert [suite.setting_name(setting) for setting in suite.settings] == ["hard", "easy,severity=5,pi_c=0.2"]
    out = assert_done(plan_of(path, "--results", tmp_path / "results"))
    assert "to run  hard / msp / seed 0" in out and "to run  easy,severity=5,pi_c=0.2 / msp / seed 0" in out
    monkeypatch.chdir(tmp_path)
    assert assert_done(plan_of("mine.yaml")).splitlines()[:3] == out.splitlines()[:3]
    assert "A suite of a user's own." in assert_done(oodbench("show", "mine.yaml"))


def test_a_run_on_a_suite_file_of_the_users_is_filed_under_its_name(suite_file, tmp_path):
    results = tmp_path / "results"
    command = ["run", "--suite", suite_file(), "--methods", "msp", "--preset", "smoke", "--results", results]
    out = assert_done(oodbench(*command))
    assert "mine-smoke: 2 cells, 0 done already, 2 to run in 1 training;" in out
    assert len(list(results.glob("mine-smoke/hard/msp/seed0-*.json"))) == 1
    assert len(list(results.glob("mine-smoke/easy,severity=5,pi_c=0.2/msp/seed0-*.json"))) == 1
    assert "nothing to do" in assert_done(oodbench(*command))


def test_content_and_not_the_name_of_a_suite_file_decides_what_is_done(suite_file, tmp_path):
    command = ["run", "--suite", suite_file(), "--methods", "msp", "--preset", "smoke", "--results", tmp_path / "r"]
    assert_done(oodbench(*command))
    suite_file("title: A suite", "# a remark\ntitle: Another suite")
    assert "nothing to do" in assert_done(oodbench(*command))
    suite_file("width: 4", "width: 5")
    assert "2 cells, 0 done already, 2 to run" in assert_done(oodbench(*command, "--dry-run"))


def test_a_preset_is_laid_over_the_suite(suite_file):
    path = str(suite_file())
    plain, smoke, noisy = suites.load(path), suites.load(path, "smoke"), suites.load(path, "noisy")
    assert (smoke.contents.recipes.scratch.epochs, smoke.contents.recipes.scratch.batch_size) == (1, 64)
    assert plain.contents.recipes.scratch.epochs == 30 and smoke.settings == plain.settings
    assert [setting.severity for setting in noisy.settings] == [4, 5]
    assert noisy.contents.recipes == plain.contents.recipes


def test_a_preset_that_states_methods_replaces_those_of_the_suite(suite_file):
    path = suite_file("title: A", "methods: {msp: {}, knn: {k: 3}}\ntitle: A")
    path.write_text(path.read_text() + "  wild:\n    methods:\n      scone: {margin: -2}\n      knn: {}\n")
    stated = {preset: suites.load(str(path), preset).contents.methods for preset in (None, "smoke", "wild")}
    assert stated[None] == stated["smoke"] == {"msp": {}, "knn": {"k": 3}}
    assert stated["wild"] == {"scone": {"margin": -2}, "knn": {}}


def test_a_method_that_a_preset_misspells_is_told_with_the_line_of_the_preset(suite_file):
    path = suite_file("title: A", "methods: {msp: {}}\ntitle: A")
    path.write_text(path.read_text() + "  wild:\n    methods:\n      scon: {}\n")
    message = f"{path}:30: 'methods.scon': unknown method 'scon'; did you mean 'scone'"
    assert_refused(oodbench("run", "--suite", path, "--preset", "wild", "--dry-run"), message)


WRONG = [
    ("network:\n", "netwrk:\n", 8, "'netwrk': unknown key 'netwrk'; did you mean 'network'?"),
    ("lr: 0.01,", "lrr: 0.01,", 13, "'recipes.finetune.lrr': unknown key 'lrr'; did you mean 'lr'?"),
    ("schedule: steps", "schedule: stepwise", 14, "'recipes.finetune.schedule': expected 'cosine' or 'steps' or 'co"),
    ("epochs: 30", "epochs: many", 12, "'recipes.scratch.epochs': expected a whole number or nothing, got 'many'"),
    ("epochs: 30", "epochs: 0", 12, "'recipes.scratch.epochs': expected more than 0, got 0"),
    ("epochs: 30", "iterations: 0", 12, "'recipes.scratch.iterations': expected more than 0, got 0"),
    (
        "epochs: 30",
        "epochs: 30, iterations: 5",
        12,
        "'recipes.scratch': a training has a number of epochs or of iterations, and both are stated; set one",
    ),
    (
        "epochs: 30, ",
        "",
        12,
        "'recipes.scratch': a training has a number of epochs or of iterations, and neither is stated; set one",
    ),
    ("lr: 1e-1", "lr: -1", 12, "'recipes.scratch.lr': expected more than 0, got -1.0"),
    ("lr: 1e-1", "lr: 1, momentum: -1", 12, "'recipes.scratch.momentum': expected 0 to below 1, got -1.0"),
    ("lr: 1e-1", "lr: 1, unaugmented: 2", 12, "'recipes.scratch.unaugmented': expected 0 to 1, got 2.0"),
    ("lr: 1e-1", "lr: .nan", 12, "'recipes.scratch.lr': expected a number, got nan"),
    ("[8, 9]", "[8, nine]", 4, "'semantic.hard.classes': expected a list (a whole number each) or nothing, got [8,"),
    ("[8, 9]", "[]", 4, "'semantic.hard.classes': expected at least one class and none twice, got []"),
    ("[0, 1, 2, 3]", "[0, 1, 1]", 2, "'id.classes': expected at least one class and none twice, got [0, 1, 1]"),
    ("[8, 9]", "[3, 8]", 4, "'semantic.hard': shares classes of 'digits' with the ID data; choose others"),
    (", classes: [8, 9]", "", 4, "'semantic.hard': shares classes of 'digits' with the ID data; choose others"),
    ("    dataset: photo", "    dataset: fotos", 6, "'semantic.easy.dataset': unknown data set 'fotos-patches'; did"),
    (
        "    dataset: photo-patches",
        "    origin: x",
        6,
        "'semantic.easy.origin': unknown key 'origin'; known: classes, data",
    ),
    ("    dataset: photo-patches", "    classes: [1]", 5, "'semantic.easy': the key 'dataset' is missing; expected"),
    ("  hard:", "  ../hard:", 4, "'semantic.../hard': expected a name of only letters, digits and . + - _"),
    ("  hard:", "  a,b=c:", 4, "'semantic.a,b=c': expected a name of only letters, digits and . + - _"),
    ("  smoke:", "  a/b:", 22, "'presets.a/b': expected a name of only letters, digits and . + - _"),
    ("digits_c", "digit_c", 7, "'corruptions': unknown family of corruptions 'digit_c'; did you mean 'digits_c'"),
    ("digits_c", "..seeds", 7, "'corruptions': unknown family of corruptions '..seeds'; known: "),
    ("small-cnn", "small-cn", 9, "'network.name': unknown network 'small-cn'; did you mean 'small-cnn' or"),
    ("width: 4", "widht: 4", 10, "'network.options.widht': unknown option of the network 'widht'; did you mean"),
    ("width: 4", "width: wide", 10, "'network.options.width': expected a whole number, got 'wide'"),
    ("id_validation: 0.2", "id_validation: 2", 16, "'splits.id_validation': expected a share between 0 and 1, got 2.0"),
    ("id_validation: 0.2", "id_validation: 0.9", 15, "'splits.mixed_validation': mixed_validation + id_validation"),
    ("covariate: gaussian_noise, ", "", 17, "'defaults': the key 'covariate' is missing; expected text"),
    ("defaults: {", "setting: {", 17, "'setting': the key 'setting' is now called 'defaults'; rename it"),
    ("lr: 1e-1", "lr: 1, plain: 1", 12, "'recipes.scratch.plain': the key 'plain' is now called 'unaugmented'; rename"),
    (
        "lr: 1e-1",
        "lr: 1, steps: a",
        12,
        "'recipes.scratch.steps': the key 'steps' is now called 'epoch_length'; rename",
    ),
    ("severity: 3", "severity: 7", 17, "'defaults.severity': severity 7 does not exist; choose 1 to 5"),
    ("severity: 3", "severity: high", 17, "'defaults.severity': expected a whole number, got 'high'"),
    ("gaussian_noise", "gaussian-noise", 17, "'defaults.covariate': unknown corruption 'gaussian-noise'; did you mean"),
    ("pi_c: 0.5", "pi_c: 0.95", 17, "'defaults.pi_c': pi_c + pi_s = 1.05 is more than the whole; choose shares that"),
    ("pi_c: 0.5", "pi_c: -0.5", 17, "'defaults.pi_c': pi_c=-0.5 is not a share; choose a number from 0 to 1"),
    ("pi_c: 0.2", "pi_c: 1.2", 20, "'settings.1.pi_c': pi_c=1.2 is not a share; choose a number from 0 to 1"),
    ("severity: 5", "severity: 0", 20, "'settings.1.severity': severity 0 does not exist; choose 1 to 5"),
    ("- semantic: hard", "- semantic: hadr", 19, "'settings.0.semantic': unknown semantic set 'hadr'; did you mean"),
    ("  - semantic: hard\n", "  - hard\n", 19, "'settings.0': expected a mapping, got 'hard'"),
    ("  - semantic: hard\n  - {semantic: easy, severity: 5, pi_c: 0.2}", "  []", 18, "'settings': expected at least"),
    ("{epochs: 1}, fine", "{epoch: 1}, fine", 23, "'recipes.scratch.epoch': unknown key 'epoch'; did you mean"),
    ("      severity: 4", "      severity: 9", 26, "'defaults.severity': severity 9 does not exist; choose 1 to 5"),
    ("    defaults:\n", "    defalts:\n", 25, "'defalts': unknown key 'defalts'; did you mean 'defaults'?"),
    ("    defaults:\n      severity: 4\n", "    3\n", 24, "'presets.noisy': expected a mapping, got 3"),
    ("title: A", "cpu_threads: 0\ntitle: A", 1, "'cpu_threads': expected "),
    ("title: A", "wild: maybe\ntitle: A", 1, "'wild': expected true or false, got 'maybe'"),
    ("corruptions: digits_c", "id: {dataset: digits}", 7, "the key 'id' occurs twice; keep one"),
    ("[0, 1, 2, 3]}", "[0, 1, 2, 3], jpeg: 0}", 2, "'id.jpeg': expected a quality from 1 to 100, got 0"),
    ("[0, 1, 2, 3]}", "[0, 1, 2, 3], size: 4}", 2, "'id.size': expected a side of 8 to 1024 pixels, got 4"),
    ("[8, 9]}", "[8, 9], jpeg: 75}", 4, "'semantic.hard.jpeg': 'jpeg' belongs to the ID data; other sets follow it"),
    ("[8, 9]}", "[8, 9], size: 8}", 4, "'semantic.hard.size': 'size' belongs to the ID data; other sets follow it"),
    ("title: A", "mixture: masks\ntitle: A", 1, "'mixture': expected 'categorical' or 'three_masks', got 'masks'"),
    (
        "title: A",
        "covariate: {x: {dataset: digits}}\ntitle: A",
        1,
        "'covariate.x': is the ID data set 'digits' itself; n",
    ),
    (
        "title: A",
        "covariate: {blur: {dataset: svhn}}\ntitle: A",
        1,
        "'covariate.blur': 'blur' is a kind of digits_c; re",
    ),
    ("title: A", "covariate: {x: {dataset: svnh}}\ntitle: A", 1, "'covariate.x.dataset': unknown data set 'svnh'; did"),
    ("covariate: gaussian_noise", "covariate: x", 17, "'defaults.covariate': unknown corruption 'x'; known: blur, "),
    ("title: A", "sweeps: {s: {set: {knn.k: [1]}}}\ntitle: A", 1, "'sweeps.s': the key 'methods' is missing"),
    ("lr: 1e-1", "lr: 1, augment: flip", 12, "'recipes.scratch.augment': expected 'none' or 'crop-flip' or 'resized-c"),
    (
        "lr: 1e-1",
        "lr: 1, epoch_length: 5",
        12,
        "'recipes.scratch.epoch_length': expected 'labelled' or 'shortest', got 5",
    ),
    (
        "title: A",
        "groups: {far: [hrd]}\ntitle: A",
        1,
        "'groups.far.0': unknown semantic set 'hrd'; did you mean 'hard'",
    ),
    (
        "title: A",
        "groups: {far: []}\ntitle: A",
        1,
        "'groups.far': expected at least one semantic set and none twice, go",
    ),
    (
        "title: A",
        "groups: {far: [hard, hard]}\ntitle: A",
        1,
        "'groups.far': expected at least one semantic set and none twice, got ['hard', 'hard']",
    ),
    ("title: A", "methods: [scone]\ntitle: A", 1, "'methods': expected a mapping, got ['scone']"),
    ("title: A", "methods: {erm: 1}\ntitle: A", 1, "'methods.erm': expected a mapping, got 1"),
    ("title: A", "methods: {scon: {}}\ntitle: A", 1, "'methods.scon': unknown method 'scon'; did you mean 'scone'"),
    (
        "title: A",
        "methods:\n  scone: {margn: 1}\ntitle: A",
        2,
        "'methods.scone.margn': unknown hyperparameter of scone",
    ),
    ("title: A", "methods: {knn: {k: few}}\ntitle: A", 1, "'methods.knn.k': expected a whole number, got 'few'"),
    ("title: A", "methods: {erm: {recipe: 1}}\ntitle: A", 1, "'methods.erm.recipe': expected a mapping, got 1"),
    (
        "title: A",
        "methods:\n  erm:\n    recipe: {lrr: 1}\ntitle: A",
        3,
        "'methods.erm.recipe.lrr': unknown key of 'recipe' 'lrr'; did you mean 'lr'?",
    ),
    (
        "title: A",
        "methods: {erm: {recipe: {lr: 0}}}\ntitle: A",
        1,
        "'methods.erm.recipe.lr': expected more than 0, got 0.0",
    ),
    ("title: A", "title: [A", 2, "not valid YAML: "),
    ("    dataset", "\tdataset", 6, "not valid YAML: found character '\\t' that cannot start any token"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), WRONG)
def test_what_is_wrong_in_a_suite_file_is_told_with_its_line(old, new, line, message, suite_file):
    path = suite_file(old, new)
    assert_refused(plan_of(path), f"oodbench: {path}:{line}: {message}")


@pytest.mark.parametrize("key", ["title", "id", "network", "recipes", "defaults", "settings"])
def test_a_missing_key_is_named(key, tmp_path):
    lines = SUITE.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(lines[:start] + lines[end:]))
    assert_refused(plan_of(path), f"{path}:1: the key '{key}' is missing; expected ")


@pytest.mark.parametrize("key", ["splits", "presets"])
def test_a_key_with_a_default_may_be_left_out(key, tmp_path):
    before, after = SUITE.split(f"{key}:\n")
    path = tmp_path / "mine.yaml"
    path.write_text(before + after[after.index("\ndefaults:") :] if key == "splits" else before)
    assert_done(plan_of(path))


def test_a_file_that_is_no_suite_at_all_is_told(tmp_path):
    empty, binary, folder = tmp_path / "empty.yaml", tmp_path / "binary.yaml", tmp_path / "folder.yaml"
    empty.touch()
    binary.write_bytes(bytes(range(256)))
    folder.mkdir()
    assert_refused(plan_of(empty), f"{empty}:1: the key 'title' is missing; expected text")
    assert_refused(plan_of(binary), f"{binary}: not a text file; expected YAML in UTF-8")
    assert_refused(plan_of(folder), f"cannot read '{folder}': Is a directory")
    assert_refused(
        plan_of(tmp_path / "none.yaml"), f"cannot read '{tmp_path / 'none.yaml'}': No such file or directory"
    )
    for command in (plan_of, lambda path: oodbench("show", path)):
        assert_refused(command(empty), f"{empty}:1: ")


def test_an_unknown_suite_or_preset_is_answered_with_near_ones(suite_file):
    assert refusal(suites.load, "digits_c") == "unknown suite 'digits_c'; did you mean 'digits-c'?"
    path = str(suite_file())
    assert refusal(suites.load, path, "smok") == "unknown preset of mine 'smok'; did you mean 'smoke'?"
    assert refusal(suites.load, path, "paper") == "unknown preset of mine 'paper'; known: noisy, smoke"


def test_a_part_without_images_is_told_before_anything_trains(suite_file, tmp_path):
    path = suite_file("id_validation: 0.2", "id_validation: 0.0001")
    refused = oodbench("run", "--suite", path, "--methods", "msp", "--results", tmp_path / "results")
    assert_refused(refused, f"the part 'id_validation' of mine is empty; change its classes or shares in {path}")
    assert "epoch" not in refused.out and not list(tmp_path.rglob("*.pt"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hard", "hard"),
        ("hard,severity=3", "hard"),
        ("severity=5", "hard,severity=5"),
        (" easy , covariate = blur ", "easy,covariate=blur"),
        ("semantic=easy,pi_s=0.25,pi_c=2e-1", "easy,pi_c=0.2,pi_s=0.25"),
        ("hard,pi_c=0,pi_s=1", "hard,pi_c=0.0,pi_s=1.0"),
    ],
)
def test_a_setting_reads_back_from_its_name(text, name, suite_file):
    suite = suites.load(str(suite_file()))
    setting = suite.setting(text)
    assert suite.setting_name(setting) == name
    assert suite.setting(name) == setting


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hrad", "unknown semantic set 'hrad'; did you mean 'hard'?"),
        ("", "unknown semantic set ''; known: easy, hard"),
        ("hard,severty=1", "unknown part of a setting 'severty'; did you mean 'severity'?"),
        ("hard,covariate=blurr", "unknown corruption 'blurr'; did you mean 'blur'?"),
        ("hard,severity=9", "severity 9 does not exist; choose 1 to 5"),
        ("hard,severity=2.5", "setting.severity: expected a whole number, got '2.5'"),
        ("hard,severity=", "setting.severity: expected a whole number, got ''"),
        ("hard,pi_c=0.6,pi_s=0.6", "pi_c + pi_s = 1.2 is more than the whole; choose shares that sum to 1 or less"),
        ("hard,pi_s=-0.1", "pi_s=-0.1 is not a share; choose a number from 0 to 1"),
        ("hard,pi_s=nan", "setting.pi_s: expected a number, got 'nan'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(text, message, suite_file):
    assert refusal(suites.load(str(suite_file())).setting, text) == message


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("nonsense", "1", "unknown key of 'recipe' 'nonsense'; known: augment, batch_size, bn_bias_lr"),
        ("epoch", "1", "unknown key of 'recipe' 'epoch'; did you mean 'epochs'?"),
        ("epochs", "-1", "recipe.epochs=-1: expected more than 0, got -1"),
        ("epochs", "1.5", "recipe.epochs: expected a whole number or nothing, got '1.5'"),
        ("schedule", "cosin", "recipe.schedule: expected 'cosine' or 'steps' or 'constant' or 'linear'"),
        ("milestones", "[0.5, a]", "recipe.milestones: expected a list (a number each), got '[0.5, a]'"),
        ("nesterov", "perhaps", "recipe.nesterov: expected true or false, got 'perhaps'"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(key, text, message, suite_file):
    assert refusal(suites.load(str(suite_file())).with_value, "recipe", key, text).startswith(message)


def test_a_value_of_the_recipe_changes_both_recipes_and_nothing_else(suite_file):
    suite = suites.load(str(suite_file()))
    changed = suite.with_value("recipe", "lr", "5e-2").with_value("recipe", "milestones", "[0.5]")
    assert [recipe.lr for recipe in vars(changed.contents.recipes).values()] == [0.05, 0.05]
    assert changed.contents.recipes.scratch.milestones == [0.5]
    assert (changed.contents.recipes.scratch.epochs, changed.contents.recipes.finetune.epochs) == (30, 20)
    assert changed.settings == suite.settings


@pytest.mark.parametrize(
    ("section", "key", "text", "message"),
    [
        ("id", "jpeg", "101", "id.jpeg=101: expected a quality from 1 to 100, got 101"),
        ("id", "jpg", "75", "unknown key of 'id' 'jpg'; did you mean 'jpeg'?"),
        ("id", "dataset", "fotos", "id.dataset=fotos: unknown data set 'fotos'; "),
        ("id", "classes", "[8]", "id.classes=[8]: shares classes of 'digits' with the ID data; choose others"),
        ("splits", "labelled", "0", "splits.labelled=0: expected a share between 0 and 1, got 0.0"),
        ("splits", "id_validation", "0.9", "splits.id_validation=0.9: mixed_validation + id_validation leave nothing"),
        ("splits", "covariate_from", "some", "splits.covariate_from: expected 'unlabelled' or 'all', got 'some'"),
        ("network", "widht", "8", "unknown key of 'network' 'widht'; did you mean 'width'?"),
        ("network", "width", "wide", "network.width: expected a whole number, got 'wide'"),
    ],
)
def test_a_value_of_a_section_that_makes_no_sense_is_refused(section, key, text, message, suite_file):
    assert refusal(suites.load(str(suite_file())).with_value, section, key, text).startswith(message)


def test_values_of_the_id_data_the_splits_and_the_network_change_alone(suite_file):
    suite = suites.load(str(suite_file()))
    encoded = suite.with_value("id", "jpeg", "75").contents
    assert encoded.id == Source("digits", [0, 1, 2, 3], jpeg=75)
    assert replace(encoded, id=suite.contents.id) == suite.contents
    shared_out = suite.with_value("splits", "labelled", "300").contents
    assert (shared_out.splits.labelled, shared_out.splits.id_validation) == (300, 0.2)
    assert replace(shared_out, splits=suite.contents.splits) == suite.contents
    wide = suite.with_value("network", "width", "9").contents
    assert wide.network.options == {"width": 9} and suite.contents.network.options == {"width": 4}
    assert replace(wide, network=suite.contents.network) == suite.contents


# Sets of the user's


def settings_of(suite):
    return [(setting.semantic, setting.covariate) for setting in suite.settings]


def test_sets_of_the_command_line_take_the_place_of_the_suites_settings(suite_file):
    suite = suites.load(str(suite_file()))
    assert suite.with_sets((), ()) is suite
    assert settings_of(suite.with_sets(["easy"], ())) == [("easy", "gaussian_noise")]
    assert settings_of(suite.with_sets((), ["blur"])) == [("hard", "blur"), ("easy", "blur")]
    both = suite.with_sets(["easy", "hard"], ["blur", "contrast"])
    assert settings_of(both) == [(s, c) for s in ("easy", "hard") for c in ("blur", "contrast")]
    assert both.contents.semantic == suite.contents.semantic


def test_a_folder_is_a_set_under_its_own_name(suite_file, tmp_path):
    suite = suites.load(str(suite_file())).with_sets([f"folder:{tmp_path}/odd ones"], [f"folder:{tmp_path}/a.tar.gz"])
    assert settings_of(suite) == [("odd_ones", "a")]
    assert suite.contents.semantic["odd_ones"] == Source(f"folder:{tmp_path}/odd ones")
    assert suite.contents.covariate["a"] == Source(f"folder:{tmp_path}/a.tar.gz")
    name = suite.setting_name(suite.settings[0])
    assert name == "odd_ones,covariate=a" and suite.setting(name) == suite.settings[0]


def test_folders_never_take_a_name_that_is_taken(suite_file, tmp_path):
    suite = suites.load(str(suite_file()))
    words = [f"folder:{tmp_path}/{place}" for place in ("1/hard", "2/hard", "3/hard", "2/hard", "none", "..", "/-")]
    folders = suite.with_sets(words, [f"folder:{tmp_path}/blur"])
    names = ["folder-hard", "folder-hard-2", "folder-hard-3", "folder-none"]  # the second was named twice
    assert [setting.semantic for setting in folders.settings][:4] == names
    assert {folders.contents.semantic[name].dataset for name in names[:3]} == set(words[:3])
    assert folders.contents.semantic["hard"] == suite.contents.semantic["hard"]
    assert folders.settings[0].covariate == "folder-blur"  # and blur is still the corruption
    suites.check(folders.contents)


@pytest.mark.parametrize(
    ("semantic", "covariate", "message"),
    [
        (["hrad"], (), "unknown semantic set 'hrad'; did you mean 'hard'?"),
        ((), ["blurr"], "unknown corruption 'blurr'; did you mean 'blur'?"),
    ],
)
def test_a_set_that_the_suite_does_not_know_is_answered_with_near_ones(semantic, covariate, message, suite_file):
    assert refusal(suites.load(str(suite_file())).with_sets, semantic, covariate) == message


# Held-out domains

DOMAINS = """\
title: Styles.
id: {dataset: pacs, size: 16}
covariate:
  art: {dataset: pacs, domains: [art_painting]}
  drawn: {dataset: pacs, domains: [sketch, cartoon]}
  other: {dataset: svhn}
semantic: {patches: {dataset: svhn}}
network: {name: small-cnn}
recipes:
  scratch: {epochs: 1, batch_size: 8, lr: 0.1}
  finetune: {epochs: 1, batch_size: 8, lr: 0.1}
defaults: {covariate: art, severity: 1, pi_c: 0.5, pi_s: 0.1}
settings: [{covariate: art}, {covariate: drawn, semantic: patches}]
"""


def test_a_setting_of_a_domain_holds_it_out_and_names_itself_by_it(tmp_path):
    (tmp_path / "styles.yaml").write_text(DOMAINS)
    suite = suites.load(str(tmp_path / "styles.yaml"))
    assert [suite.held_out(setting) for setting in suite.settings] == [["art_painting"], ["sketch", "cartoon"]]
    assert suite.held_out(suite.setting("covariate=other")) == []
    assert "environments" in suite.provides
    names = [suite.setting_name(setting) for setting in suite.settings]
    assert names == ["covariate=art", "patches,covariate=drawn"]
    assert [suite.setting(name) for name in names] == suite.settings


def test_without_a_semantic_set_there_is_no_wild_mixture(tmp_path):
    (tmp_path / "styles.yaml").write_text(DOMAINS)
    suite = suites.load(str(tmp_path / "styles.yaml"))
    assert "wild" not in suite.provides
    assert "wild" in suite.with_sets(["patches"], ()).provides


def test_a_sweep_that_is_not_there_is_answered_with_those_that_are(suite_file):
    suite = suites.load(str(suite_file("title: A", "sweeps: {depth: {methods: knn}}\ntitle: A")))
    assert suite.sweep(None) is None and suite.sweep("depth").methods == "knn"
    assert refusal(suite.sweep, "dept") == "unknown sweep of mine 'dept'; did you mean 'depth'?"


def test_a_suite_without_wild_data_says_so(suite_file):
    assert suites.load(str(suite_file())).provides >= {"wild"}
    assert "wild" not in suites.load(str(suite_file("title: A", "wild: false\ntitle: A"))).provides
