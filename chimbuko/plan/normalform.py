"""Performance models in normal form: sums of products of powers of parameters and of their logarithms."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from chimbuko.core.arrays import Float64Array
from chimbuko.core.errors import ConfigError

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(rf"\s*(?:({_NUMBER})|(log2|sqrt)\s*\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*)|([-+*/^()]))")
_EXPONENT = re.compile(
    rf"\s*\^\s*(?:\(\s*([-+]?(?:{_NUMBER}))\s*(?:/\s*({_NUMBER})\s*)?\)|([-+]?(?:{_NUMBER})))"
)


@dataclass(frozen=True)
class Factor:
    """``parameter^power · log2(parameter)^log_power``."""

    parameter: str
    power: float
    log_power: float = 0.0

    def values(self, x: Float64Array) -> Float64Array:
        """Return the factor at values of the parameter, which are positive; NaN or infinite where there is
        none. Any shape.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = np.power(x, self.power)
            return found * np.power(np.log2(x), self.log_power) if self.log_power else found

    def __str__(self) -> str:
        texts = [f"{self.parameter}{_exponent(self.power)}"] if self.power else []
        texts += [f"log2({self.parameter}){_exponent(self.log_power)}"] if self.log_power else []
        return " * ".join(texts)


@dataclass(frozen=True)
class Term:
    """A coefficient, in seconds, times factors; a constant has none."""

    coefficient: float
    factors: tuple[Factor, ...] = ()

    def __str__(self) -> str:
        return " * ".join([f"{self.coefficient:.6g}", *map(str, self.factors)])


@dataclass(frozen=True)
class NormalForm:
    """Seconds as a function of positive parameters (equations 1 and 2)."""

    terms: tuple[Term, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted({factor.parameter for term in self.terms for factor in term.factors}))

    def values(self, points: Mapping[str, npt.ArrayLike]) -> Float64Array:
        """Return seconds at values of each parameter. Any shape, the same for all."""
        columns = {name: np.asarray(column, float) for name, column in points.items()}
        shape = np.broadcast_shapes(*(column.shape for column in columns.values()))
        total = np.zeros(shape)
        for term in self.terms:
            product = np.full(shape, term.coefficient)
            for factor in term.factors:
                product = product * factor.values(columns[factor.parameter])
            total = total + product
        return total

    def __str__(self) -> str:
        text = " + ".join(map(str, self.terms)) or "0"
        return text.replace("+ -", "- ")


ZERO = NormalForm(())
INTERVAL = (0.025, 0.975)
"""Quantiles of replicates between which a prediction lies."""


@dataclass(frozen=True)
class Estimate:
    """A time, and how it had to be bent."""

    time_s: float
    clamps: tuple[str, ...] = ()
    """Parameters that were set to the nearest value that the model stands for, in words."""


@dataclass(frozen=True)
class PerformanceModel:
    """A normal form, with what is known of where it holds and how certain it is."""

    form: NormalForm
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Least and greatest value of each parameter that the model was fitted to; none of published models."""
    replicates: tuple[NormalForm, ...] = ()
    """The same model fitted to resampled measurements; none if there are no measurements."""

    def at(self, point: Mapping[str, float]) -> Estimate:
        """Seconds at values of the parameters, never below 0 and never from outside of what was fitted.

        Raises
        ------
        ConfigError
            A parameter has no value, or one at which the model has none.
        """
        inside, clamps = self._inside(point)
        time_s = _value(self.form, inside)
        if time_s < 0.0:
            clamps = [*clamps, f"{time_s:.3g} s at {_words(inside)} is taken as 0"]
        return Estimate(max(time_s, 0.0), tuple(clamps))

    def interval_s(self, point: Mapping[str, float]) -> tuple[float, float] | None:
        """Between what 95 % of the replicates say; None if there are none."""
        if not self.replicates:
            return None
        times_s = [self.replicate(number).at(point).time_s for number in range(len(self.replicates))]
        low, high = np.quantile(times_s, INTERVAL)
        return float(low), float(high)

    def replicate(self, number: int) -> PerformanceModel:
        """Return the model as it could have come out as well; this one itself where nothing was resampled."""
        return PerformanceModel(self.replicates[number], self.ranges) if self.replicates else self

    def _inside(self, point: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
        inside, clamps = {}, []
        for name in self.form.parameters:
            if name not in point:
                raise ConfigError(f"no value of '{name}', which '{self.form}' needs; known: {_names(point)}")
            value = point[name]
            if not value > 0 or math.isinf(value):
                raise ConfigError(f"{name} = {value:g}: '{self.form}' holds for positive values only")
            low, high = self.ranges.get(name, (value, value))
            inside[name] = min(max(value, low), high)
            if inside[name] != value:
                clamps.append(
                    f"{name} = {value:g} is taken as {inside[name]:g}, the end of what was measured"
                )
        return inside, clamps


def _value(form: NormalForm, point: Mapping[str, float]) -> float:
    time_s = float(form.values(point)) if form.terms else 0.0
    if not math.isfinite(time_s):
        raise ConfigError(f"'{form}' has no value at {_words(point)}")
    return time_s


def _words(point: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in point.items()) or "any point"


def _names(point: Mapping[str, float]) -> str:
    return ", ".join(point) or "none"


def _exponent(power: float) -> str:
    return "" if power == 1 else f"^{power:.12g}"


def parse_form(text: str) -> NormalForm:
    """Return a normal form as it is written: ``0.0064 + 2711 * ranks^-1``, ``3.8 + 8.2 / sqrt(n)``,
    ``log2(n)``.

    Raises
    ------
    ConfigError
        It is none.
    """
    terms: list[Term] = []
    at, end = 0, len(text.rstrip())
    while at < end or not terms:
        sign = re.compile(r"\s*([-+])?").match(text, at)
        assert sign is not None
        if terms and sign[1] is None:
            raise _not_a_form(text, at)
        term, at = _term(text, sign.end())
        terms.append(Term(-term.coefficient, term.factors) if sign[1] == "-" else term)
    return NormalForm(tuple(term for term in terms if term.coefficient))


def _term(text: str, at: int) -> tuple[Term, int]:
    """Return the product that begins at a place, and where it ends."""
    coefficient, powers, log_powers = 1.0, dict[str, float](), dict[str, float]()
    direction = 1.0
    while True:
        token = _TOKEN.match(text, at)
        if token is None or token[5] is not None:
            raise _not_a_form(text, at)
        exponent, at = _parsed_exponent(text, token.end())
        exponent *= direction
        if token[1] is not None:
            try:
                coefficient *= float(token[1]) ** exponent
            except (OverflowError, ZeroDivisionError):
                raise _not_a_form(text, token.start()) from None
        elif token[2] == "log2":
            log_powers[token[3]] = log_powers.get(token[3], 0.0) + exponent
        else:
            name = token[3] or token[4]
            powers[name] = powers.get(name, 0.0) + (exponent / 2 if token[2] else exponent)
        following = _TOKEN.match(text, at)
        if following is None or following[5] not in ("*", "/"):
            names = sorted({*powers, *log_powers})
            factors = [Factor(name, powers.get(name, 0.0), log_powers.get(name, 0.0)) for name in names]
            if not math.isfinite(coefficient):
                raise _not_a_form(text, at)
            return Term(coefficient, tuple(one for one in factors if one.power or one.log_power)), at
        direction = 1.0 if following[5] == "*" else -1.0
        at = following.end()


def _parsed_exponent(text: str, at: int) -> tuple[float, int]:
    match = _EXPONENT.match(text, at)
    if match is None:
        return 1.0, at
    below = float(match[2]) if match[2] else 1.0
    if below == 0:
        raise _not_a_form(text, at)
    return float(match[1] or match[3]) / below, match.end()


def _not_a_form(text: str, at: int) -> ConfigError:
    return ConfigError(
        f"{text!r}: not understood from character {at + 1} on; give a sum of products of numbers, parameters "
        "and log2(parameter), such as 0.0064 + 2711 * ranks^-1"
    )
