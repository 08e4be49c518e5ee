"""Wild images pushed out under constraints on the labeled ones: what WOODS and SCONE share.

Minimize the share of wild images taken for ID, such that at most alpha of the labeled images is taken for OOD and
their cross-entropy stays at or below tau. An augmented Lagrangian does it: each constraint has a multiplier and a
penalty weight, which move between epochs by what labeled images in eval mode say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from oodbench.errors import UserError
from oodbench.learning.batches import Data, Split
from oodbench.learning.functional import energy, gradient_norm
from oodbench.learning.loop import Loop
from oodbench.learning.networks import Classifier
from oodbench.learning.outputs import forward
from oodbench.seeds import derive

RELEASED_LR = 1e-4  # of w and b
SATURATED = 0.974  # softplus(.5): where w starts if nothing better can be computed
SMALL_FALL = 0.005  # of the wild term, which lies in [0, 1]
ALLOWED = 0.1  # of a limit, by which a constraint may be over it: one that is met on average is so half of the time
MULTIPLE = re.compile(r"(\d+\.?\d*|\.\d+)x")  # 0.9x


class Settings(Protocol):
    """The hyperparameters of a trainer that minimizes a wild term under these constraints."""

    margin: float | str
    alarms: float
    risk: float
    growth: float
    tolerance: float
    bound: float
    every: int | Literal["epoch"]
    checked: int | Literal["all"]
    form: Literal["paper", "reference"]
    start: float | Literal["auto"]
    head_lr: float


def check_settings(settings: Settings) -> None:
    """Refuse values that make no sense."""
    name, margin, start = type(settings).__name__.lower(), settings.margin, settings.start
    if isinstance(margin, str) and margin != "auto" and not MULTIPLE.fullmatch(margin):
        raise UserError(
            f"{name}.margin={margin} is not a margin; give a number like -10, a multiple like 0.9x, or auto"
        )
    if isinstance(margin, float) and margin > 0:
        raise UserError(f"{name}.margin={margin:g} is positive; the margin is 0 or negative, for example -10")
    if not 0 < settings.alarms < 1 or settings.risk <= 0 or settings.growth < 1 or settings.bound <= 0:
        raise UserError(
            f"{name}: alarms must lie in (0, 1), risk and bound above 0, growth at 1 or above; change --set"
        )
    for key, count in (("every", settings.every), ("checked", settings.checked)):
        if not isinstance(count, str) and count < 1:
            raise UserError(f"{name}.{key}={count} is out of range; choose 1 or more")
    if start != "auto" and (start <= 0 or settings.form == "reference"):
        raise UserError(f"{name}.start={start:g} must be above 0 and needs form=paper; change it or leave it out")
    if settings.head_lr <= 0 or (settings.form == "paper" and settings.head_lr != RELEASED_LR):
        raise UserError(
            f"{name}.head_lr={settings.head_lr:g}: it is above 0 and serves only form=reference; "
            "change it or leave it out"
        )


class Constraint(nn.Module):
    """g <= 0 in an augmented Lagrangian: a multiplier lambda and a penalty weight beta, moved between epochs."""

    multiplier: Tensor  # lambda
    weight: Tensor  # beta

    def __init__(self, growth: float, tolerance: float, bound: float) -> None:
        super().__init__()
        self.growth, self.tolerance, self.bound = growth, tolerance, bound
        self.register_buffer("multiplier", torch.zeros(()))
        self.register_buffer("weight", torch.ones(()))

    def penalty(self, g: Tensor) -> Tensor:
        """lambda g + beta g^2 / 2 where lambda + beta g >= 0, else -lambda^2 / (2 beta)."""
        return ((self.multiplier + self.weight * g).relu().square() - self.multiplier.square()) / (2 * self.weight)

    def update(self, g: float) -> None:
        """Step the multiplier; let the weight grow, up to its bound, while g is violated."""
        self.multiplier += torch.clamp(-self.multiplier / self.weight, min=g)
        if g > self.tolerance:
            self.weight.mul_(self.growth).clamp_(max=self.bound)

    def log(self, name: str, g: float) -> dict[str, float]:
        """For the training log."""
        state = {"constraint": g, "multiplier": self.multiplier.item(), "weight": self.weight.item()}
        return {f"{name}_{key}": value for key, value in state.items()}


class PaperTerms(nn.Module):
    """sigma(-w E) on wild and sigma(w (E - eta)) on labeled images, with w = softplus(u) > 0: it cannot turn over."""

    def __init__(self, margin: float, start: float) -> None:
        super().__init__()
        self.margin = margin
        self.u = nn.Parameter(torch.tensor(start, dtype=torch.float64).expm1().log().float())

    @property
    def w(self) -> Tensor:
        return F.softplus(self.u)

    def taken_for_ood(self, e: Tensor) -> Tensor:
        return torch.sigmoid(self.w * (e - self.margin))

    def taken_for_id(self, e: Tensor) -> Tensor:
        return torch.sigmoid(-self.w * e)


class ReferenceTerms(nn.Module):
    """The released code: a weight of either sign, a bias, and the margin in the wild term, fed with L = -E."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.w = nn.Parameter(torch.tensor(-0.3465))  # what its seed 1 gives
        self.b = nn.Parameter(torch.tensor(-0.9668))

    def taken_for_ood(self, e: Tensor) -> Tensor:
        return torch.sigmoid(-self.w * e + self.b)

    def taken_for_id(self, e: Tensor) -> Tensor:
        return torch.sigmoid(-(self.w * (-e - self.margin) + self.b))


def least_start(energies: Tensor, alarms: float) -> float | None:
    """The smallest w > 0 at which the mean of sigma(w E) is `alarms`: the constraint just met, without a margin.

    At w = 0 the mean is a half, and it falls with w where most energies are negative. A larger w than needed puts the
    images on the flat of the sigmoid, where the wild term has next to no gradient.
    """
    e = energies.double()
    grid = torch.logspace(-4, 4, 2001, dtype=torch.float64).tolist()
    at = lambda w: torch.sigmoid(w * e).mean().item()  # noqa: E731
    met = next((i for i, w in enumerate(grid) if at(w) <= alarms), None)
    if met is None:
        return None
    low, high = grid[met - 1] if met else 0.0, grid[met]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if at(middle) <= alarms else (middle, high)
    return high


def _start(settings: Settings, energies: Tensor, loop: Loop) -> float:
    """Where w begins, and a note of it."""
    start = least_start(energies, settings.alarms) if settings.start == "auto" else settings.start
    if start is None:
        start = SATURATED
        loop.notes["start_rule"] = f"no w > 0 takes a share of {settings.alarms:g} of the labeled images for OOD"
    loop.notes["start"] = start
    return start


def times_median(multiple: str, energies: Tensor) -> float:
    """`0.9x` of the median energy: a margin that means the same for every network."""
    median = energies.double().median().item()
    if median >= 0:
        raise UserError(
            f"scone.margin={multiple} of a median energy of {median:.3g} is not a margin, which is 0 or negative; "
            "give it as a number"
        )
    return float(multiple[:-1]) * median


@dataclass(frozen=True)
class Checked:
    """The labeled images that constraints are measured on."""

    split: Split

    @classmethod
    def of(cls, labelled: Split, count: int | Literal["all"], seed: int) -> "Checked":
        """So many, drawn by the seed."""
        if count == "all" or count >= len(labelled):
            return cls(labelled)
        generator = torch.Generator().manual_seed(derive(seed, "checked"))
        rows = torch.randperm(len(labelled), generator=generator)[:count].sort().values.to(labelled.y.device)
        return cls(Split(labelled.images.index_select(0, rows), labelled.y[rows]))

    @torch.no_grad()
    def measure(self, model: Classifier) -> tuple[Tensor, float]:
        """Energies, and the mean cross-entropy, in eval mode."""
        logits = forward(model, self.split.images).logits
        return energy(logits), F.cross_entropy(logits, self.split.y.to(logits.device)).item()


class Limits:
    """Both constraints of one training: their penalties, how they move, and whether they are met in the end."""

    def __init__(self, settings: Settings, margin: float | str, model: Classifier, data: Data, loop: Loop) -> None:
        self.checked = Checked.of(data.labelled, settings.checked, loop.seed)
        energies, cross_entropy = self.checked.measure(model)
        self.alpha, self.tau = settings.alarms, settings.risk * cross_entropy
        margin = times_median(margin, energies) if isinstance(margin, str) else margin
        self.terms: PaperTerms | ReferenceTerms
        if settings.form == "reference":
            self.terms = ReferenceTerms(margin).to(loop.device)
        else:
            self.terms = PaperTerms(margin, _start(settings, energies, loop)).to(loop.device)
        bound = max(1.0, settings.bound / loop.recipe.lr)
        self.alarms = Constraint(settings.growth, settings.tolerance, bound).to(loop.device)
        self.risk = Constraint(settings.growth, settings.tolerance, bound).to(loop.device)
        if settings.form == "reference":
            self.risk.multiplier = self.alarms.multiplier  # one variable for both, as released
        self.modules: list[nn.Module] = [self.terms, self.alarms, self.risk]
        self._gradients: dict[str, Tensor] = {}
        loop.constraints = self.now

    def lagrangian(self, logits: Tensor, y: Tensor, wild: Tensor, loop: Loop) -> Tensor:
        """The wild term and what the constraints cost on this batch."""
        parts = {
            "wild": self.terms.taken_for_id(energy(wild)).mean(),
            "alarms": self.alarms.penalty(self.terms.taken_for_ood(energy(logits)).mean() - self.alpha),
            "risk": self.risk.penalty(F.cross_entropy(logits, y) - self.tau),
        }
        loop.record(**{f"{name}_term": value for name, value in parts.items()})
        if loop.first_of_epoch:
            self._gradients = {f"{name}_gradient": gradient_norm(value, logits, wild) for name, value in parts.items()}
        return parts["wild"] + parts["alarms"] + parts["risk"]

    @torch.no_grad()
    def update(self, model: Classifier) -> dict[str, float]:
        """Move multipliers and penalty weights by the checked images; what happened, for the log."""
        over_alpha, over_tau = self._over(model)
        self.alarms.update(over_alpha)
        self.risk.update(over_tau)
        record = {name: value.item() for name, value in self._gradients.items()}
        record |= self.alarms.log("alarms", over_alpha) | self.risk.log("risk", over_tau)
        return record | {"w": self.terms.w.item(), "margin": self.terms.margin, "tau": self.tau}

    def _over(self, model: Classifier) -> tuple[float, float]:
        """By how much the checked images are over alpha and over tau."""
        energies, cross_entropy = self.checked.measure(model)
        return self.terms.taken_for_ood(energies).mean().item() - self.alpha, cross_entropy - self.tau

    @torch.no_grad()
    def now(self, model: Classifier) -> list[dict[str, Any]]:
        """Both constraints of the network as it is, for the path of a training."""
        return self._told(*self._over(model))

    def met(self, log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Both constraints as the last epoch left them, for the result."""
        return self._told(log[-1]["alarms_constraint"], log[-1]["risk_constraint"])

    def _told(self, over_alpha: float, over_tau: float) -> list[dict[str, Any]]:
        every = (("alarms", over_alpha, self.alpha), ("risk", over_tau, self.tau))
        return [
            {"name": name, "value": over + limit, "limit": limit, "met": over <= ALLOWED * limit}
            for name, over, limit in every
        ]

    def unfinished(self, log: Sequence[Mapping[str, Any]]) -> str | None:
        """Why the training had not converged at its end, if so.

        The wild term still falls if the last quarter of the training brought more than a tenth of what came before it.
        """
        reasons = [
            f"the {each['name']} constraint is violated, {each['value']:.3g} where {each['limit']:.3g} is allowed"
            for each in self.met(log)
            if not each["met"]
        ]
        wild = [record["wild_term"] for record in log]
        quarter = max(1, len(wild) // 4)
        if len(wild) > 1:
            before, last = wild[0] - wild[-1 - quarter], wild[-1 - quarter] - wild[-1]
            if last > max(0.1 * before, SMALL_FALL):
                reasons.append(f"the wild term still falls, by {last:.3g} in the last quarter")
        return "; ".join(reasons) or None
