"""t-SNE of the penultimate features of the three test splits."""

from collections.abc import Sequence

import numpy as np

from oodbench.data.image_part import ImagePart
from oodbench.report.figures.networks import networks_of, parts_of
from oodbench.report.figures.studies import Drawing, Study, beside_each_other, printed_name
from oodbench.report.figures.style import SPLITS, TITLES, panel_size, panels_of, test_splits_of, titled_figure
from oodbench.seeds import derive

FEATURE_ROWS = 500  # of each split; more only make t-SNE slow and its picture black


def draw(study: Study, methods: Sequence[str], compared: Sequence[str]) -> Drawing:
    """t-SNE of the penultimate features of the three test splits."""
    chosen = beside_each_other(study, methods, compared)
    networks = networks_of(chosen)
    parts = parts_of(chosen[0], tuple(SPLITS))
    import torch
    from sklearn.manifold import TSNE

    from oodbench.learning.outputs import forward

    rows = {}
    for split in SPLITS:
        part: ImagePart = getattr(parts, split)
        order = np.random.default_rng(derive(chosen[0].seed, "features", split)).permutation(len(part))
        rows[split] = torch.from_numpy(np.asarray(part.take(order[:FEATURE_ROWS]).images))
    figure = titled_figure(study, f"features, seed {chosen[0].seed}", *panel_size(len(chosen)))
    panels = panels_of(figure, len(chosen))
    belongs = np.repeat(list(SPLITS), [len(images) for images in rows.values()])
    for axes, result, network in zip(panels, chosen, networks, strict=True):
        features = forward(network, torch.cat(list(rows.values()))).features.numpy()
        perplexity = min(30.0, (len(features) - 1) / 3)
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(features)
        for split, (colour, _, _, marker) in SPLITS.items():
            x, y = plane[belongs == split].T
            axes.plot(x, y, marker, color=colour, fillstyle="none", markersize=2.6, markeredgewidth=0.6, alpha=0.8,
                      label=TITLES[split])  # fmt: skip
        axes.set_title(printed_name(result))
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SPLITS), markerscale=1.8)
    caption = (
        f"t-SNE of penultimate features on {study.suite}, setting {study.setting}, seed {chosen[0].seed}: "
        f"{test_splits_of(chosen[0])}; at most {FEATURE_ROWS} rows of each, drawn at random, the same for every "
        "method. Distances between far groups mean nothing."
    )
    return Drawing(figure, caption, chosen)
