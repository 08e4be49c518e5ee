"""J. Katz-Samuels et al., Training OOD Detectors in their Natural Habitats, ICML 2022."""

from dataclasses import dataclass
from typing import ClassVar

from oodbench.methods.scone import SCONE


@dataclass
class WOODS(SCONE):
    """SCONE without a margin: the wild images pushed out, the labeled ones kept in, accuracy kept."""

    margin: ClassVar[float] = 0.0  # eta
    threshold: ClassVar[str] = "validation"
