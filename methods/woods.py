"""J. Katz-Samuels et al., Training OOD Detectors in their Natural Habitats, ICML 2022.

The objective:

    min mean_wild σ(−w E)  subject to  mean_ID σ(w E) ≤ α  and  CE ≤ τ, where E = −log Σ_k exp z_k,
    w > 0 is learned, and τ is `risk` times the CE of the starting weights
"""

from dataclasses import dataclass
from typing import ClassVar

from oodbench.methods.scone import SCONE


@dataclass
class WOODS(SCONE):
    """SCONE without a margin: the wild images pushed out, the labeled ones kept in, accuracy kept."""

    margin: ClassVar[float] = 0.0  # eta
    threshold: ClassVar[str] = "validation"
