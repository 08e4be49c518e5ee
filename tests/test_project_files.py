"""What the repository says about itself is true: its metadata, the issue forms, the workflows, the hooks."""

import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent

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


def addresses(value):
    """Keys that hold an address, wherever they are."""
    if isinstance(value, dict):
        own = {key for key in value if key in ("url", "doi", "repository", "repository-code", "website", "email")}
        return own.union(*map(addresses, value.values()))
    return set().union(*map(addresses, value)) if isinstance(value, list) else set()


def test_the_citation_has_the_version_and_license_of_the_package_and_no_invented_address(project):
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == project["project"]["version"]
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


def test_the_targets_of_make_that_contributing_names_exist():
    named = set(re.findall(r"`make ([\w-]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert {"lint", "test", "test-slow"} <= named
    assert named <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
