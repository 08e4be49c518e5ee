"""The images of a suite for a network of the user's own."""

from collections.abc import Sequence
from dataclasses import replace

from oodbench.config import suite as suites
from oodbench.config.contents import NetworkChoice
from oodbench.config.suite import Setting, Suite
from oodbench.data import availability, lookup, openood
from oodbench.data.parts import Parts, given_parts
from oodbench.data.preprocessing import Preprocessing, resized
from oodbench.errors import UserError
from oodbench.learning.given_models import GivenModel
from oodbench.results.result import SetRead
from oodbench.running.choice import choose_settings
from oodbench.running.given.network import (
    NOT_TRAINED,
    SEED,
    Case,
    Given,
    adapted,
    bring,
    check_labels,
    few_of,
    preprocessing_of,
)
from oodbench.running.given.request import GivenRequest
from oodbench.running.keys import corruption_code
from oodbench.running.provenance import recorded
from oodbench.running.reporting import Reporter
from oodbench.running.request import request


def on_suite(asked: GivenRequest, reporter: Reporter) -> Given:
    """A network on the images of a suite: all training images, the test images, and whole semantic sets."""
    assert asked.suite is not None
    semantic, covariate = ([str(each) for each in sets.values()] for sets in (asked.semantic, asked.covariate))
    suite = suites.load(asked.suite, asked.preset).with_sets(semantic, covariate)
    source = suite.contents.id
    if source.embed is not None:
        raise UserError(
            f"'{suite.label}' gives networks features of {source.embed}, not images; choose another suite, or --id"
        )
    settings = choose_settings(request(suite=asked.suite, settings=asked.settings), suite, None)
    settings = _provided(suite, settings, asked, reporter)
    data, count = lookup.dataset(source.dataset), lookup.num_classes(suite)
    names = data.class_names
    if names and source.classes is not None:
        names = tuple(names[i] for i in sorted(source.classes))
    brought = bring(asked, count, len(data.mean))
    preprocessing = preprocessing_of(asked, _or_as_the_suite(brought, Preprocessing(data.mean, data.std)))
    cases: list[Case] = []
    sets: dict[str, SetRead] = {}
    for setting in settings:
        parts = _sized(given_parts(suite, setting, SEED), preprocessing)
        marks = lookup.fingerprints(suite, setting)
        sets |= {name: SetRead(mark, lookup.dataset(name).source) for name, mark in marks.items()}
        code = corruption_code(suite.contents, setting)
        cases.append(Case(setting, parts, marks if code is None else {**marks, "corruptions": code}))
    network = adapted(asked, brought, preprocessing, few_of(cases[0].parts.id), names, reporter)
    check_labels(cases[0].parts.id, cases[0].parts.labelled, network.model.head.out_features)
    contents = replace(recorded(suite.contents), network=NetworkChoice("given"), recipes=NOT_TRAINED)
    return Given(network, replace(suite, contents=contents), cases, sets)


def _or_as_the_suite(brought: GivenModel, own: Preprocessing) -> GivenModel:
    """Where nobody says how a network wants its images, as networks that are trained on the suite take them.

    The configuration of a library is of its own weights: those of the user's, for other classes, were trained anew.
    What OpenOOD does is for its checkpoints.
    """
    stated = brought.preprocessing
    if stated is not None and (brought.weights is None or brought.classes or stated.stated_by == openood.STATED_BY):
        return brought
    return replace(brought, preprocessing=replace(own, stated_by="the suite"))


def _sized(parts: Parts, preprocessing: Preprocessing) -> Parts:
    """The images of a suite as large as the network takes them."""
    every = {name: replace(part, whole=resized(part.whole, preprocessing)) for name, part in parts.items().items()}
    return Parts(**every)


def _provided(suite: Suite, settings: Sequence[Setting], asked: GivenRequest, reporter: Reporter) -> list[Setting]:
    """The settings whose data is there: fetched if missing, left out or refused if it cannot be had."""
    problems: dict[str, str] = {}
    for setting in settings:
        problems |= availability.lacking(suite, setting)
    if problems and not asked.offline:
        problems = availability.obtain(problems, reporter.download)
    if problems and not asked.available:
        more = f"; {len(problems) - 1} more are unavailable" if len(problems) > 1 else ""
        say = "; --available leaves out settings without data" if len(settings) > 1 else ""
        raise UserError(f"{next(iter(problems.values()))}{more}{say}")
    there = []
    for setting in settings:
        lacks = [problems[name] for name in availability.lacking(suite, setting) if name in problems]
        if lacks:
            reporter.note(f"left out: the setting '{suite.setting_name(setting)}': {lacks[0]}")
        else:
            there.append(setting)
    if not there:
        raise UserError(f"no setting has its data here; see: oodbench data status {asked.suite}")
    return there
