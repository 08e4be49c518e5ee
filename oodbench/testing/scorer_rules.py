"""What every scorer promises."""

import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from oodbench.learning.method import Classifier, Scorer
from oodbench.learning.outputs import Outputs
from oodbench.learning.rows import to_input
from oodbench.learning.scoring import fit, one_per_row
from oodbench.results.metrics import auroc
from oodbench.running.mistakes import in_words
from oodbench.testing.contract import Subject, Violation, require, require_some_effect, rule
from oodbench.testing.simulated_device import AwayTensor, simulated
from oodbench.testing.toy_problem import Toy


def scores_of(scorer: Scorer, out: Outputs) -> Tensor:
    """As a run asks for them."""
    with torch.no_grad():
        return one_per_row(scorer, out)


def rows_of(out: Outputs, rows: Any) -> Outputs:
    """Some rows, in any order, without their labels."""
    maps = None if out.maps is None else out.maps[rows]
    return Outputs(out.model, out.images[rows], out.features[rows], out.logits[rows], maps=maps)


def require_same(got: Tensor, expected: Tensor, details: str, tolerance: float = 1e-4) -> None:
    """To a small part of the spread of the scores, the unit in which a difference could matter."""
    require(got.shape == expected.shape, details)
    require((got - expected).abs().max() <= tolerance * expected.std(), details)


@rule("Scorer", "defaults", "it fits the training rows and scores two rows")
def scores_two_rows(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    scores_of(subject.fitted(train, validation), rows_of(unseen, slice(2)))


@rule("Scorer", "values", "scores are one finite number per row")
def one_finite_number_per_row(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    scores = scores_of(subject.fitted(train, validation), unseen)
    require(scores.is_floating_point(), f"scores are {scores.dtype}; return floating-point numbers")
    require(scores.isfinite().all(), "some are not finite")
    require(scores.std() > 0, "all rows have the same score")


@rule("Scorer", "values", "scores do not depend on the batch or the row order")
def each_row_on_its_own(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    scorer, out = subject.fitted(train, validation), many_rows(train, unseen)
    scores = scores_of(scorer, out)
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(0))
    require_same(scores_of(scorer, rows_of(out, order)), scores[order], "rows in another order score otherwise")
    for size, some in ((7, order[:70]), (100, order)):
        chunks = [scores_of(scorer, rows_of(out, rows)) for rows in some.split(size)]
        require_same(torch.cat(chunks), scores[some], f"rows in batches of {size} score otherwise")
    one_by_one = [scores_of(scorer, rows_of(out, slice(i, i + 1))) for i in range(190, 215)]
    require_same(torch.cat(one_by_one), scores[190:215], "a row on its own scores otherwise")
    if out.maps is not None:
        read_by_seven = scores_of(scorer, subject.reading(out, size=7))
        require_same(read_by_seven, scores, "rows whose maps are read in batches of 7 score otherwise")


def many_rows(train: Outputs, unseen: Outputs) -> Outputs:
    """260 rows, more than any scorer takes at once."""
    names = ("images", "features", "logits", "maps")[: 4 if unseen.maps is not None else 3]
    both = {name: torch.cat([getattr(train, name), getattr(unseen, name)]) for name in names}
    return Outputs(unseen.model, **both)


@rule("Scorer", "values", "scoring and fitting again give the same scores")
def repeats(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    scorer = subject.fitted(train, validation)
    scores = scores_of(scorer, unseen)
    require(torch.equal(scores_of(scorer, unseen), scores), "scoring again gives others")
    fit(scorer, train, validation if "validation" in subject.card.needs else None)
    require(torch.equal(scores_of(scorer, unseen), scores), "fitting again gives others")
    other = subject.fitted(train, validation)
    require(torch.equal(scores_of(other, unseen), scores), "another object gives others; draw from a seeded generator")


@rule("Scorer", "values", "a new fit forgets the last one")
def forgets(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    assert train.y is not None
    scorer = subject.fitted(replace(rows_of(train, slice(100)), y=train.y[:100]), validation)
    with torch.no_grad():
        fit(scorer, train, validation if "validation" in subject.card.needs else None)
    expected = scores_of(subject.fitted(train, validation), unseen)
    require(torch.equal(scores_of(scorer, unseen), expected), "scores depend on rows it was fitted to before")


def state(out: Outputs) -> tuple[dict[str, Tensor | None], list[Any]]:
    """Everything a scorer could change: tensors copied, switches as they are."""
    model = out.model
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    shared = ("weight", "bias", "unit", "descending", "predicted")  # of which other scorers see the very tensors
    tensors |= {key: getattr(out, key) for key in ("images", "features", "logits", "y", "maps", *shared)}
    switches: list[Any] = [module.training for module in model.modules()]
    switches += [(p.requires_grad, p.grad is None) for p in model.parameters()]
    return {key: None if t is None else t.clone() for key, t in tensors.items()}, switches


def same_state(a: tuple[dict[str, Any], list[Any]], b: tuple[dict[str, Any], list[Any]]) -> bool:
    return a[1] == b[1] and all(a[0][k] is b[0][k] is None or torch.equal(a[0][k], b[0][k]) for k in a[0] | b[0])


@rule("Scorer", "values", "fitting and scoring change neither the model nor the outputs")
def changes_nothing(subject: Subject, problem: Toy) -> None:
    if "feature-maps" in subject.card.needs:
        require_reading_changes_nothing(subject, problem.unseen_outputs())
    train, validation, unseen = subject.outputs(problem)
    before = [state(out) for out in (train, validation, unseen)]
    scores_of(subject.fitted(train, validation), unseen)
    after = [state(out) for out in (train, validation, unseen)]
    require(all(map(same_state, before, after)), "weights, buffers, outputs or switches are others than before")


def require_reading_changes_nothing(subject: Subject, out: Outputs) -> None:
    assert isinstance(out.images, Tensor)
    maps = out.model.maps(to_input(out.images, out.model.device))
    before, kept = state(out), maps.clone()
    subject.make().read_maps(maps, out.model)
    is_same = torch.equal(maps, kept) and same_state(before, state(out))
    require(is_same, "read_maps changes the network, or the maps that other scorers read after it")


@rule("Scorer", "values", "scores are the same with and without gradients")
def same_under_gradients(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    without = scores_of(subject.fitted(train, validation), unseen)
    scorer = subject.make()
    with torch.enable_grad():
        fit(scorer, train, validation if "validation" in subject.card.needs else None)
        scores = scorer.score(unseen)
    require(torch.equal(scores.detach(), without), "they differ")
    require(not without.requires_grad, "scores ask for a gradient where there is none")


@rule("Scorer", "values", "labels are not read when scoring")
def reads_no_labels(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    scorer = subject.fitted(train, validation)
    scores = scores_of(scorer, unseen)
    labelled = replace(unseen, y=torch.arange(len(scores)) % problem.data.num_classes)
    require(torch.equal(scores_of(scorer, labelled), scores), "with labels the scores are others")


class WatchedImages(Tensor):
    """Images that note whether anybody looks at more than how many there are."""

    looked = False
    # What `Outputs` itself does with the images of some rows, whoever asks for these.
    passed_on = frozenset({Tensor.__getitem__, Tensor.__len__, Tensor.shape.__get__})  # type: ignore[attr-defined]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        WatchedImages.looked |= function not in cls.passed_on
        return super().__torch_function__(function, types, args, kwargs or {})


def watched(out: Outputs) -> Outputs:
    assert isinstance(out.images, Tensor)
    return replace(out, images=out.images.as_subclass(WatchedImages))


@rule("Scorer", "defaults", "it needs images if, and only if, it goes back to them")
def says_that_it_needs_images(subject: Subject, problem: Toy) -> None:
    # With other values one may go back that does not by default: where there are no images, it is told so then.
    train, validation, unseen = map(watched, subject.outputs(problem))
    WatchedImages.looked = False
    scores_of(subject.fitted(train, validation), unseen)
    says, looks = "images" in subject.card.needs, WatchedImages.looked
    require(says or not looks, f'it looks at images; add "images" to needs of class {subject.card.class_name}')
    require(looks or not says, f'it looks at no image; take "images" out of needs of class {subject.card.class_name}')


@rule("Scorer", "values", "scores stay on the device of the tensors")
def scores_where_it_is(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    expected = scores_of(subject.fitted(train, validation), unseen)
    with simulated() as device:
        try:
            there = copy.deepcopy(train.model).to(device)
            some = [subject.reading(moved(out, device, there)) for out in (train, validation, unseen)]
            scores = scores_of(subject.fitted(some[0], some[1]), some[2])
        except RuntimeError as error:
            if "was given tensors on" not in str(error):
                raise
            raise Violation(
                f"{in_words(subject.card, error)}; make tensors on the device of those you are given"
            ) from error
        is_there = isinstance(scores, AwayTensor)
    require(is_there, "they come back on the CPU; leave out .cpu()")
    require_same(scores.home, expected, "they differ there")  # type: ignore[attr-defined]


def moved(out: Outputs, device: torch.device, model: Classifier | None = None) -> Outputs:
    """On a device as a run has it there, around a network that is there or else a copy: the images stay at home."""

    def sent(tensor: Tensor) -> Tensor:
        return tensor.clone().to(device)

    y, maps = (None if each is None else sent(each) for each in (out.y, out.maps))
    model = model or copy.deepcopy(out.model).to(device)
    return Outputs(model, out.images, sent(out.features), sent(out.logits), y, maps)


@rule("Scorer", "hyperparameters", "every hyperparameter changes the scores")
def hyperparameter_changes_scores(subject: Subject, problem: Toy) -> None:
    def outcome(changed: Subject) -> Tensor:
        train, validation, unseen = changed.outputs(problem)
        return scores_of(changed.fitted(train, validation), unseen)

    def differs(scores: Tensor, default: Tensor) -> bool:
        return bool((scores - default).abs().max() > 1e-3 * default.std())

    require_some_effect(subject, outcome, differs)


@rule("Scorer", "values", "what is learnt does not show in the repr")
def hides_what_it_learnt(subject: Subject, problem: Toy) -> None:
    train, validation, unseen = subject.outputs(problem)
    scorer = subject.fitted(train, validation)
    scores_of(scorer, unseen)
    require(repr(scorer) == repr(subject.make()), "a fitted one prints otherwise; do not set hyperparameters in fit")


WRONG_SIDE = 0.4  # an AUROC well below one half; those of our own scorers are at least 0.8 on one kind of images


@rule("Scorer", "defaults", "images far from every class score higher than ID images")
def far_images_score_higher(subject: Subject, problem: Toy) -> None:
    train, validation, _ = subject.outputs(problem)
    scorer = subject.fitted(train, validation)
    known, *far = (scores_of(scorer, subject.reading(out)).numpy() for out in problem.separated_outputs())
    best = max(auroc(known, scores) for scores in far)
    details = f"it scores ID higher than images that lie far from them (AUROC {best:.2f}): higher must mean more OOD"
    require(best > WRONG_SIDE, details)
