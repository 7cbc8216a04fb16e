"""Interactions: features of a document, multiplied by features of the situation in which it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from duelrank.core.errors import InvalidValue, ShapeMismatch, UnknownName
from duelrank.core.types import Features, Query, checked_table, frozen

#: The maximum number of interactions.
MAX_INTERACTIONS = 200
#: All features have values.
NOTHING_MISSING: Mapping[str, str | float] = {}


class Interactions:
    """Which features of documents count differently in a context, such as on a phone.

    A number that is the same for all documents of a list, such as whether the user has a phone, changes no order by itself. Its
    product with a feature does: the weight of ``mobile*price`` is what phones add to the weight of the price. Products are features
    like any other for algorithms, representations and exports.

    Parameters
    ----------
    names
        Names of the features of documents; products that are not among them come last.
    context
        For each name of a context the features that it is multiplied with.
    missing
        What missing values of features count as, as in the ``missing`` of a ranker: a number, which is multiplied like any other
        value, or "neutral". A product with a missing value is missing, too.

    Examples
    --------
    Users with a phone want cheap documents, others dear ones; no weight of the price suits both:

    >>> from duelrank import Feedback, Interactions, Learner
    >>> import numpy as np
    >>> shop, draws = Interactions(["bm25", "price"], {"mobile": ["price"]}), np.random.default_rng(1)
    >>> learner = Learner("query-scaled >> wmgd-dsp", feature_names=shop.names, seed=1)
    >>> shop.names
    ('bm25', 'price', 'mobile*price')
    >>> for number in range(600):
    ...     mobile, offers = number % 2, draws.random((8, 2))
    ...     shown = learner.rank(shop.query("shoes", offers, {"mobile": mobile}))
    ...     prices = offers[shown.ranking, 1]
    ...     learner.learn(shown, Feedback(prices < 0.3 if mobile else prices > 0.7))
    >>> offers = [[0.5, 0.1], [0.5, 0.9]]
    >>> [int(learner.best(shop.query("shoes", offers, {"mobile": mobile}))[0]) for mobile in (0, 1)]
    [1, 0]
    """

    def __init__(
        self,
        names: Sequence[str],
        context: Mapping[str, Sequence[str]],
        missing: Mapping[str, str | float] = NOTHING_MISSING,
    ) -> None:
        for one in context:
            if "*" in one:  # a*b times c would have the name of a times b*c
                raise InvalidValue(f"the name of a context has no *, got {one!r}")
        pairs = {f"{one}*{feature}": (one, feature) for one, features in context.items() for feature in features}
        own = [name for name in names if name not in pairs]
        for one, feature in pairs.values():
            if feature not in own:
                raise InvalidValue(f"the context {one!r}: {UnknownName.among('feature', feature, own)}")
        for feature in missing:
            if feature not in names:
                raise InvalidValue(str(UnknownName.among("feature", feature, own)))
        if len(pairs) > MAX_INTERACTIONS:
            raise InvalidValue(
                f"there may be at most {MAX_INTERACTIONS} products of contexts and features, got {len(pairs)}"
            )
        #: All names, and those of the features that documents have.
        self.names, self.given = tuple(dict.fromkeys((*names, *pairs))), tuple(own)
        self.context = {one: tuple(features) for one, features in context.items()}
        self._lacking = np.isin(own, list(missing))
        found = [missing.get(name, "") for name in own]
        self._numbers = np.array([np.nan if isinstance(each, str) else each for each in found])
        self._own = [self.names.index(name) for name in own]
        self._products = [(self.names.index(name), one, own.index(of)) for name, (one, of) in pairs.items()]

    def table(self, features: Features, context: Mapping[str, float]) -> Features:
        """Return the features of documents with their products; what a context does not give is 0."""
        for name, value in context.items():
            if name not in self.context:
                raise InvalidValue(f"{UnknownName.among('context', name, self.context)}")
            if not np.isfinite(value):
                raise InvalidValue(f"a context is a finite number, got {value!r} for {name!r}")
        given = np.where(np.isnan(features), self._numbers, features) if self._lacking.any() else features
        found = np.empty((len(given), len(self.names)))
        found[:, self._own] = given
        with np.errstate(over="ignore"):
            for column, one, place in self._products:
                found[:, column] = context.get(one, 0.0) * given[:, place]
        return found

    def query(self, id: str, features: ArrayLike, context: Mapping[str, float]) -> Query:
        """Return a query with these products, for a `Learner` with the same names."""
        missing = bool(self._lacking.any())
        table = checked_table(features, missing)
        if table.shape[1] != len(self.given):
            raise ShapeMismatch(
                f"documents have the {len(self.given)} features {', '.join(self.given)}, got {table.shape[1]}"
            )
        if missing and (wrong := np.isnan(table).any(axis=0) & ~self._lacking).any():
            raise InvalidValue(f"the feature {self.given[int(wrong.argmax())]!r} may not be missing, found nan")
        return Query(id, frozen(self.table(table, context)), missing=missing)
