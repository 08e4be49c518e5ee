"""Random search: distributions as text, and what a draw takes from each. Knows nothing of suites or methods.

    U(a,b)                 uniform
    10**U(a,b)             a power of it, of base 2 or 10
    int 2**U(a,b)          rounded down to a whole number
    3 * int 2**U(a,b)      times a whole number: a batch of all environments where the distribution is of one
    {a,b,c}                one of these, equally likely

Numbers have six digits, so that the value that is printed is the value that was used.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oodbench.config.schema import Misfit, Place, conform, parse
from oodbench.errors import shortened
from oodbench.seeds import derive

_NUMBER = r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
_UNIFORM = re.compile(rf"(?:(\d{{1,9}})\s*\*\s*(?!\*))?(int\s+)?(?:(2|10)\s*\*\*\s*)?U\({_NUMBER},{_NUMBER}\)")
_CHOICE = re.compile(r"\{(.+)\}")


@dataclass(frozen=True)
class Uniform:
    """U(a,b), or a power or multiple of it."""

    low: float
    high: float
    base: int | None
    whole: bool
    factor: int
    type: Any  # of the hyperparameter

    def at(self, share: float) -> Any:
        """The value that this share of all values is below."""
        value = self.low + share * (self.high - self.low)
        if self.base is not None:
            value = self.base**value
        return conform(self.factor * int(value) if self.whole else float(f"{self.factor * value:.6g}"), self.type)

    @property
    def extremes(self) -> tuple[Any, ...]:
        return self.at(0), self.at(1)


@dataclass(frozen=True)
class OneOf:
    """{a,b,c}"""

    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        return self.values[int(share * len(self.values))]

    @property
    def extremes(self) -> tuple[Any, ...]:
        return self.values


Distribution = Uniform | OneOf


def read(text: str, type_: Any, place: Place) -> Distribution:
    """A distribution of values of a type, or Misfit."""
    if matched := _CHOICE.fullmatch(text.strip()):
        return OneOf(tuple(parse(word.strip(), type_, place) for word in matched[1].split(",")))
    matched = _UNIFORM.fullmatch(text.strip())
    if matched is None:
        forms = "U(a,b), 10**U(a,b), int 2**U(a,b), 3 * int 2**U(a,b) or {a,b,c}"
        raise Misfit(place, f"'{shortened(text)}' is not a distribution; write {forms}")
    factor, whole, base, low, high = matched.groups()
    uniform = Uniform(float(low), float(high), int(base) if base else None, bool(whole), int(factor or 1), type_)
    if uniform.low >= uniform.high:
        raise Misfit(place, f"'{text}' has no values between {low} and {high}; write the smaller number first")
    try:
        uniform.extremes  # noqa: B018  (whether they can be had)
    except Misfit as error:
        raise Misfit(place, f"'{text}' does not fit: {error.message}") from None
    except OverflowError:
        raise Misfit(place, f"'{text}' holds numbers that are too large; choose smaller bounds") from None
    return uniform


@dataclass(frozen=True)
class Draw:
    """One point of a search."""

    number: int  # from 1; 0 would be what suite and methods say
    values: Mapping[str, Any]  # by recipe.NAME or TRAINER.NAME

    def of(self, part: str) -> dict[str, Any]:
        """The values of the recipe or of a trainer."""
        named = {tuple(name.split(".", 1)): value for name, value in self.values.items()}
        return {key: value for (owner, key), value in named.items() if owner == part}

    def __str__(self) -> str:
        return f"draw {self.number} ({', '.join(f'{name}={value}' for name, value in self.values.items())})"


def draw(distributions: Mapping[str, Distribution], seed: int, number: int) -> Draw:
    """Each value follows from seed, number and its own name: another hyperparameter leaves it as it is."""
    shares = {name: (derive(seed, "search", number, name) >> 10) / 2**53 for name in distributions}
    return Draw(number, {name: each.at(shares[name]) for name, each in distributions.items()})
