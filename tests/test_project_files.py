"""What the repository says about itself is true: its metadata, the issue forms, the workflows, the hooks."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from oodbench.cli.command_line import parser_of as parser

ROOT = Path(__file__).parent.parent
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
# By type of field, what GitHub's schema of issue forms requires and allows under `attributes`.
ATTRIBUTES = {
    "markdown": ({"value"}, {"value"}),
    "input": ({"label"}, {"label", "description", "placeholder", "value"}),
    "textarea": ({"label"}, {"label", "description", "placeholder", "value", "render"}),
    "dropdown": ({"label", "options"}, {"label", "description", "options", "multiple", "default"}),
}

if sys.version_info >= (3, 11):
    import tomllib

    @pytest.fixture(scope="module")
    def project():
        return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
else:

    @pytest.fixture(scope="module")
    def project():
        pytest.skip("Python reads TOML from 3.11 on")


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def workflow(name):
    return read_yaml(f".github/workflows/{name}.yml")


def text_of(value):
    """Every string in a document."""
    if isinstance(value, dict):
        return "\n".join(map(text_of, value.values()))
    return "\n".join(map(text_of, value)) if isinstance(value, list) else str(value)


def addresses(value):
    """Keys that hold an address, wherever they are."""
    if isinstance(value, dict):
        own = {key for key in value if key in ("url", "doi", "repository", "repository-code", "website", "email")}
        return own.union(*map(addresses, value.values()))
    return set().union(*map(addresses, value)) if isinstance(value, list) else set()


def test_the_citation_the_changelog_and_the_builder_name_the_same_next_version(project):
    next_version = project["tool"]["setuptools_scm"]["fallback_version"].removesuffix(".dev0")
    assert re.fullmatch(r"\d+\.\d+\.\d+", next_version)
    assert read_yaml("CITATION.cff")["version"] == next_version
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+\.\d+\.\d+)", changes, re.M)[0] == next_version


def test_the_citation_has_the_license_of_the_package_and_no_invented_address(project):
    citation = read_yaml("CITATION.cff")
    assert citation["license"] == project["project"]["license"]
    assert citation["title"].startswith(f"{project['project']['name']}: ")
    assert not addresses(citation)


def test_the_pythons_that_are_promised_are_the_ones_that_workflows_test(project):
    stated = [each.rpartition(" ")[2] for each in project["project"]["classifiers"] if ":: 3." in each]
    assert stated == ["3.10", "3.11", "3.12", "3.13"]
    assert project["project"]["requires-python"] == f">={stated[0]}"
    assert project["tool"]["ruff"]["target-version"] == "py" + stated[0].replace(".", "")
    jobs = workflow("check")["jobs"]
    runs = [each["python"] for each in jobs["tests"]["strategy"]["matrix"]["include"] if not each["untried"]]
    assert runs == [stated[0], stated[-1]]


def test_every_job_has_a_time_limit_and_reads_only():
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        contents = workflow(path.stem)
        assert "write" not in contents["permissions"].values() or path.stem == "docs", path.name
        for name, job in contents["jobs"].items():
            assert "timeout-minutes" in job or path.stem == "docs", f"{path.name}: {name}"


def test_a_tag_publishes_what_was_built_and_tried_and_only_that_job_may():
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as true
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    assert publish["needs"] == "build" and publish["environment"]["name"] == "pypi"
    assert publish["permissions"] == {"id-token": "write"} and "permissions" not in build
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    steps = " ; ".join(step["run"] for step in build["steps"] if "run" in step)
    order = ("CITATION.cff", "CHANGELOG.md", "absolute_links.py", "-m build", "twine check --strict", 'oodbench" demo')
    assert sorted(order, key=steps.index) == [*order]


def test_every_link_of_the_readme_works_on_pypi_too(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    script = ROOT / "docs" / "builder" / "absolute_links.py"
    subprocess.run([sys.executable, script, copy, "https://github.com/some/name", "v1.2.3"], check=True)
    targets = re.findall(r"\]\(([^)]+)\)", copy.read_text(encoding="utf-8"))
    assert all(target.startswith(("https://", "#")) for target in targets)
    inside = [target for target in targets if target.startswith("https://github.com/some/name/")]
    for target in inside:
        kind, version, path = target.removeprefix("https://github.com/some/name/").split("#")[0].split("/", 2)
        assert (kind, version) == ("raw" if path.endswith(".png") else "blob", "v1.2.3") and (ROOT / path).exists()
    assert any("/raw/" in target for target in inside) and any("/blob/" in target for target in inside)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_is_what_github_accepts(path):
    form = read_yaml(path.relative_to(ROOT))
    assert form.keys() <= {"name", "description", "title", "labels", "assignees", "body"}
    assert form["name"] and form["description"] and form["body"]
    asked = [each for each in form["body"] if each["type"] != "markdown"]
    for field in form["body"]:
        required, allowed = ATTRIBUTES[field["type"]]
        assert field.keys() <= {"type", "id", "attributes", "validations"}
        assert required <= field["attributes"].keys() <= allowed
        assert all(isinstance(each, str) for each in field["attributes"].get("options", []))
        assert field.get("validations", {"required": True}).keys() == {"required"}
    names, labels = [each["id"] for each in asked], [each["attributes"]["label"] for each in asked]
    assert all(re.fullmatch(r"[\w-]+", name) for name in names)
    assert len({*names}) == len({*labels}) == len(asked) > 0
    assert any(each.get("validations", {}).get("required") for each in asked)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_the_commands_that_an_issue_form_asks_for_exist(path):
    commands = re.findall(r"^\s*(oodbench .+)$", text_of(read_yaml(path.relative_to(ROOT))), flags=re.M)
    assert commands
    for command in commands:
        words = shlex.split(command)[1:]
        if words != ["--version"]:
            parser().parse_args(words)  # which ends with status 2 if it does not understand


def test_whoever_reports_a_wrong_number_is_asked_for_the_result():
    fields = {each["id"]: each["attributes"] for each in read_yaml(".github/ISSUE_TEMPLATE/wrong-number.yml")["body"]}
    assert "oodbench show RESULT" in fields["show"]["value"]
    assert "JSON" in fields["files"]["description"] and "oodbench pack" in fields["files"]["description"]


def test_hooks_run_the_tools_of_the_linters_and_fetch_nothing(project):
    (local,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system", "pygrep", "fail"}
    tools = {hook["entry"].split()[0] for hook in local["hooks"] if hook["language"] == "system"} - {"python"}
    assert tools <= {re.match(r"[\w-]+", each)[0] for each in project["project"]["optional-dependencies"]["dev"]}


def test_the_targets_of_make_that_contributing_names_exist():
    named = set(re.findall(r"`make ([\w-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert {"lint", "test", "test-slow"} <= named
    assert named <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
