"""Accuracy on every domain while a network trains, from which `results.selection` chooses afterwards.

Trainers never see it: what is measured on a held-out domain goes into the log and nowhere else.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oodbench.data.image_part import ImagePart
from oodbench.data.parts import Parts
from oodbench.learning.loop import Loop, Observer
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.learning.rows import as_rows


def observer(names: Sequence[str], parts: Parts) -> Observer | None:
    """With the names of the data's domains; None where no domain is held out."""
    validation = parts.covariate_validation
    if validation is None:
        return None

    def look(model: Classifier, loop: Loop) -> dict[str, Any]:
        validated = _by_domain(model, parts.id, names) | _by_domain(model, validation, names)
        return {"validation": validated, "test": _by_domain(model, parts.covariate, names)}

    return Observer("domains", look)


def _by_domain(model: Classifier, part: ImagePart, names: Sequence[str]) -> dict[str, float]:
    """The share of images of each domain that are classified rightly, one pass for each."""
    assert part.domains is not None
    accuracies = {}
    for number in np.unique(part.domains):
        some = part.take(part.domains == number)
        predictions = forward(model, as_rows(some.images)).logits.argmax(dim=-1).cpu().numpy()
        accuracies[names[number]] = float((predictions == some.labels).mean())
    return accuracies
