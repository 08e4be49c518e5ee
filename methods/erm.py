"""V. Vapnik, Statistical Learning Theory, 1998.

The plain classifier, and the starting point of every method that fine-tunes.

The loss:

    L = CE(z(x), y)
"""

from dataclasses import dataclass

from oodbench import Trainer


@dataclass
class ERM(Trainer):
    """Cross-entropy on the labeled images: empirical risk minimization."""
