"""Scores and t-SNE of penultimate features of the three test splits, methods beside each other."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from oodbench.data.image_part import ImagePart
from oodbench.report.figures.energies import HOW, draw_scores, shown_splits
from oodbench.report.figures.networks import networks_of, parts_of
from oodbench.report.figures.scores import values_of
from oodbench.report.figures.studies import Asked, Drawing, NotDrawn, Study, beside_each_other, printed_name
from oodbench.report.figures.style import SPLITS, TITLES, columns_that_fit, new_figure, panels_of, test_splits_of
from oodbench.seeds import derive

FEATURE_ROWS = 500  # of each split; more only make t-SNE slow and its picture black


def draw(study: Study, asked: Asked) -> Drawing:
    """Scores and t-SNE of penultimate features of the three test splits, methods beside each other."""
    chosen = beside_each_other(study, asked)
    networks = networks_of(chosen, asked.networks)
    parts = parts_of(chosen[0], tuple(SPLITS))
    import torch

    from oodbench.learning.outputs import forward

    rows = {}
    for split in SPLITS:
        part: ImagePart = getattr(parts, split)
        order = np.random.default_rng(derive(chosen[0].seed, "features", split)).permutation(len(part))
        rows[split] = torch.from_numpy(np.asarray(part.take(order[:FEATURE_ROWS]).images))
    belongs = np.repeat(list(SPLITS), [len(images) for images in rows.values()])
    images = torch.cat(list(rows.values()))
    planes = [_plane(forward(network, images).features.numpy()) for network in networks]
    try:
        scored = [values_of(result) for result in chosen]
        shown = shown_splits(scored)
    except NotDrawn:
        scored = []
    count = len(chosen) * (2 if scored else 1)
    columns = columns_that_fit(asked.width, count, 1.5) if count < 5 else len(chosen)
    lines = -(-count // columns)
    figure = new_figure(study, asked, f"features, seed {chosen[0].seed}", 1.95 * lines + 0.2)
    panels = panels_of(figure, count, columns)
    if scored:
        draw_scores(panels[: len(chosen)], chosen, scored, shown, columns)
    for axes, result, plane in zip(panels[-len(chosen) :], chosen, planes, strict=True):
        _draw_plane(axes, plane, belongs)
        axes.set_title(f"{printed_name(result)}: t-SNE" if scored else printed_name(result))
    if count > 1:
        for letter, axes in zip("abcdefghijkl", panels, strict=False):
            axes.set_title(f"({letter}) {axes.get_title()}")
    handles, labels = panels[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SPLITS), markerscale=1.8)
    first = f"Scores (first {len(chosen)} panels) and t-SNE" if scored else "t-SNE"
    caption = (
        f"{first} of penultimate features on {study.words}, seed {chosen[0].seed}: {test_splits_of(chosen[0])}. t-SNE "
        f"uses at most {FEATURE_ROWS} random images of each split, the same for every method. Distances between "
        f"distant groups mean nothing.{f' {HOW}' if scored else ''}"
    )
    return Drawing(figure, caption, chosen)


def _plane(features: NDArray[np.float32]) -> NDArray[np.float32]:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(features) - 1) / 3)
    plane: NDArray[np.float32] = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(features)
    return plane


def _draw_plane(axes: Axes, plane: NDArray[np.float32], belongs: NDArray[np.str_]) -> None:
    for split, (colour, _, _, marker) in SPLITS.items():
        x, y = plane[belongs == split].T
        axes.plot(x, y, marker, color=colour, fillstyle="none", markersize=2.2, markeredgewidth=0.5, alpha=0.8,
                  label=TITLES[split])  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
