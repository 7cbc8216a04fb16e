"""How far users look down a list, learned from the randomness of a log, and how much each document attracts."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duelrank.evaluation.lists import Lists, Ranked, Values

_START = np.array([2.0, 0.0, 0.0])  # coefficients of continuation: σ(2) = 88% of users go on
_PRIOR = np.array([0.25, 0.0625, 1.0])  # precision of the normal prior around these
_RIDGE = 1.0  # precision of the normal prior of the coefficients of attraction
_LARGEST = 8.0  # of a logit
_SURE = 1e-3  # the attraction of a document is at least this far from 0 and 1
STEP = 0.01  # of a coefficient, for derivatives
_FIRST_CHANCE = 0.3  # attraction before anything is known
_FITTED = 5_000  # lists that attraction is fitted to
_COMPARED = 12  # lists of each query that the one with a click is compared with, itself included


class Browsing:
    """Users go down a list, and click on a document that they see with its attraction; fitted to a log.

    - P(see position k + 1) = P(see position k) · σ(a + b · α + c · log k), with α the attraction of the document at k. It contains
      users who always see everything, cascades in which good documents satisfy, and position bias 1 / k.
    - **a, b and c come from the randomness of the log alone**: a document that was clicked is compared with itself at the other
      places where the logging policy might have shown it. Among the lists that it might have been in, P(the list was shown | the
      document was clicked) is the P(see the document) in that list, divided by the sum over all these lists, whatever its
      attraction is. This conditional likelihood is maximised by Newton's method.
    - Attraction is a logistic regression on the features, fitted by expectation maximisation, and combined with the actions on
      the same document in all other lists, so that what happened in a list does not explain itself. How much these count follows
      from the documents that were shown first in two lists, because those were seen. Estimates do not rely on attraction where the
      logging policy might have shown a document, but for how far users look.

    Parameters
    ----------
    lists
        The log.
    happened
        (n, length) whether the event that is modelled happened at each position: an action, or the first action.
    bias
        P(see position k) = k^−bias, if it is known; None to learn how far users look.
    ends
        Whether the event ends the list, as the first action does: then only documents without it are passed, with 1 − α.
    """

    def __init__(
        self, lists: Lists, happened: NDArray[np.bool_], bias: float | None = None, ends: bool = False
    ) -> None:
        self.lists, self._happened, self._bias, self._ends = lists, happened, bias, ends
        self._log_positions = np.log(np.arange(1, lists.length + 1))
        self._list_of, self._place = np.nonzero(happened)
        clicked = lists.shown[self._list_of, self._place]
        self._compared = lists.sampled[:, :_COMPARED]
        hits = self._compared[self._list_of] == clicked[:, None, None]
        self._there, self._at = hits.any(axis=2), hits.argmax(axis=2)
        step = -(-len(lists) // _FITTED)
        self._some = np.arange(0, len(lists), max(1, step))
        self._some_shown = lists.shown[self._some]
        self._design = lists.covariates[lists.rows[self._some_shown]].reshape(-1, lists.covariates.shape[1])
        #: Coefficients of continuation.
        self.continuation = _START.copy()
        self._coefficients = np.zeros(lists.covariates.shape[1])
        self._coefficients[0] = np.log(_FIRST_CHANCE / (1.0 - _FIRST_CHANCE))
        self._set_attraction()
        self._fit()

    def _fit(self) -> None:
        self._fit_attraction(8)
        for _ in range(0 if self._bias is not None else 3):
            self._fit_continuation(2)
            self._fit_attraction(3)
        #: Information about the coefficients of continuation, and the score of each list, for the errors of estimates.
        self.information, self.scores = np.diag(_PRIOR), np.zeros((len(self.lists), 3))
        if self._bias is None:
            self._fit_continuation(8)
            scores, information = self._score()
            self.information += information
            self.scores = np.stack([np.bincount(self._list_of, each, len(self.lists)) for each in scores.T], axis=1)

    def _set_attraction(self, seen: Values | None = None) -> None:
        """Set the attraction of each entry: by features, and if P(see) at the shown positions is given, by other lists, too."""
        by_features = np.append(logistic(self.lists.covariates @ self._coefficients), 0.0)
        found = by_features[self.lists.rows]
        if seen is not None:
            found = self._with_other_lists(found, by_features, seen)
        #: P(action | seen) of each entry; 0 for no document.
        self.attraction = np.clip(found, _SURE, 1.0 - _SURE)
        self.attraction[-1] = 0.0

    def _with_other_lists(self, prior: Values, by_features: Values, seen: Values) -> Values:
        """Return the attraction of each entry, from its prior and the actions on the same document in all other lists."""
        lists, chances = self.lists, self.attraction[self.lists.shown]
        there = lists.shown >= 0
        looked = there * np.where(self._happened, 1.0, seen * (1.0 - chances) / np.maximum(1.0 - seen * chances, 1e-9))
        strength = self._strength(by_features)
        actions, looks = (self._elsewhere(each) for each in (self._happened & there, looked))
        found: Values = (strength * prior + actions) / (strength + looks)
        return found

    def _elsewhere(self, each: NDArray[Any]) -> Values:
        """Return for each entry the sum of what shown positions have, over all other lists that have shown the same document."""
        lists = self.lists
        own = by_entry(lists.shown, each, lists.n_entries)
        found: Values = np.bincount(lists.rows + 1, own, lists.rows.max() + 2)[lists.rows + 1] - own
        found[-1] = 0.0
        return np.maximum(found, 0.0)

    def _strength(self, by_features: Values) -> float:
        """Return the number of looks that features are worth: 1 / ρ − 1, with ρ the correlation of actions on the same document.

        It is measured on pairs of lists that show the same document first, and what its features say is subtracted.
        """
        rows = self.lists.rows[self.lists.shown[:, 0]]
        chances = by_features[rows]
        residuals, deviations = self._happened[:, 0] - chances, np.sqrt(chances * (1.0 - chances))

        def pairs(each: Values) -> float:
            return float((np.bincount(rows + 1, each) ** 2).sum() - (each**2).sum())

        correlation = pairs(residuals) / max(pairs(deviations), 1e-9)
        return 1.0 / min(max(correlation, _SURE), 0.5) - 1.0

    def goes_on(self, ranked: Ranked, continuation: Values | None = None) -> Values:
        """Return P(see the next position | this one is seen) at each position."""
        found = self._stays(ranked, self.continuation if continuation is None else continuation)
        return found * (1.0 - self.attraction[ranked]) if self._ends else found

    def _stays(self, ranked: Ranked, continuation: Values) -> Values:
        """Return the same of users for whom the list has not ended."""
        if self._bias is not None:
            positions = np.arange(1, ranked.shape[-1] + 1)
            return np.broadcast_to((positions / (positions + 1.0)) ** self._bias, ranked.shape)
        a, b, c = continuation
        return logistic(a + b * self.attraction[ranked] + c * self._log_positions)

    @cached_property
    def looks(self) -> Looks:
        """How much users look at documents."""
        return Looks(self, self.continuation)

    @cached_property
    def nearby(self) -> list[tuple[Looks, Looks]]:
        """The looks with each coefficient of continuation a step larger, and a step smaller; none if these are known."""
        if self._bias is not None:
            return []
        steps = STEP * np.eye(3)
        return [(Looks(self, self.continuation + each), Looks(self, self.continuation - each)) for each in steps]

    def _fit_continuation(self, rounds: int) -> None:
        for _ in range(rounds):
            scores, information = self._score()
            slope = scores.sum(axis=0) - _PRIOR * (self.continuation - _START)
            step = np.linalg.solve(information + np.diag(_PRIOR), slope)
            self.continuation = self.continuation + step / max(1.0, float(np.abs(step).max()))
            if np.abs(step).max() < 1e-3:
                break

    def _score(self) -> tuple[Values, Values]:
        """Return the derivative of the conditional log-likelihood of each click, and the information of all."""
        goes_on = self.goes_on(self._compared)
        weights = np.where(self._there, self._at_click(np.log(goes_on)), -np.inf)
        weights = np.exp(weights - weights.max(axis=1, keepdims=True, initial=-1e9))
        weights /= weights.sum(axis=1, keepdims=True)
        stops = 1.0 - self._stays(self._compared, self.continuation)
        parts = (stops, stops * self.attraction[self._compared], stops * self._log_positions)
        slopes = np.stack([np.where(self._there, self._at_click(each), 0.0) for each in parts], axis=-1)
        mean = np.einsum("cm,cmp->cp", weights, slopes)
        information = np.einsum("cm,cmp,cmq->pq", weights, slopes, slopes) - mean.T @ mean
        return slopes[:, 0] - mean, information

    def _at_click(self, each: Values) -> Values:
        """Return the sum over all positions above a clicked document, in each of the sampled lists."""
        above = np.zeros(each.shape)
        np.cumsum(each[..., :-1], axis=-1, out=above[..., 1:])
        found: Values = above[self._list_of[:, None], np.arange(each.shape[1]), self._at]
        return found

    def _fit_attraction(self, rounds: int) -> None:
        happened = self._happened[self._some].ravel()
        seen = Looks(self, self.continuation).seen(self._some_shown).ravel()
        for _ in range(rounds):
            chances = logistic(self._design @ self._coefficients)
            looked = seen * (1.0 - chances) / np.maximum(1.0 - seen * chances, 1e-9)
            weights = np.where(happened, 1.0, looked) * (self._some_shown.ravel() >= 0)
            self._coefficients = _newton(self._design, weights, happened, chances, self._coefficients)
        self._set_attraction(Looks(self, self.continuation).seen(self.lists.shown))


class Looks:
    """How much users look at documents, with some coefficients of how they go on.

    Parameters
    ----------
    browsing
        The fitted model.
    continuation
        The coefficients.
    """

    def __init__(self, browsing: Browsing, continuation: Values) -> None:
        self._browsing, self._continuation = browsing, continuation
        #: P(action | seen) of each entry.
        self.attraction = browsing.attraction

    def seen(self, ranked: Ranked) -> Values:
        """Return P(see) of each position of lists, 0 behind the end of a list."""
        found = np.ones(ranked.shape)
        np.cumprod(self._browsing.goes_on(ranked, self._continuation)[..., :-1], axis=-1, out=found[..., 1:])
        found[ranked < 0] = 0.0
        return found

    @cached_property
    def shown(self) -> Values:
        """P(see) of each position of the shown lists."""
        return self.seen(self._browsing.lists.shown)

    @cached_property
    def by_policy(self) -> Values:
        """P(see) of each entry in a list of the logging policy; 0 if that could not have shown it."""
        return self._by_policy(1.0)

    def by_policy_worth(self, worth: Values) -> Values:
        """Return the same, with a worth of each position."""
        return self.by_policy if (worth == 1.0).all() else self._by_policy(worth)

    def _by_policy(self, worth: Values | float) -> Values:
        sampled = self._browsing.lists.sampled
        found: Values = by_entry(sampled, self._of_sampled * worth, self._browsing.lists.n_entries) / sampled.shape[1]
        return found

    @cached_property
    def _of_sampled(self) -> Values:
        """P(see) of each position of the sampled lists."""
        return self.seen(self._browsing.lists.sampled)


def by_entry(ranked: Ranked, values: Values, n_entries: int) -> Values:
    """Return the sum of values for each entry; 0 for no document."""
    found: Values = np.bincount(np.where(ranked >= 0, ranked, n_entries - 1).ravel(), values.ravel(), n_entries).astype(
        np.float64
    )
    found[-1] = 0.0
    return found


def logistic(logits: Values) -> Values:
    """Return the logistic function, which is never 0 or 1 here."""
    found: Values = 1.0 / (1.0 + np.exp(-np.clip(logits, -_LARGEST, _LARGEST)))
    return found


def _newton(
    design: Values, weights: Values, happened: NDArray[np.bool_], chances: Values, coefficients: Values
) -> Values:
    """Return the coefficients of a weighted logistic regression after one step of Newton's method."""
    slopes = weights * np.maximum(chances * (1.0 - chances), 1e-4)
    normal = design.T @ (design * slopes[:, None]) + _RIDGE * np.eye(len(coefficients))
    step = np.linalg.solve(normal, design.T @ (weights * (happened - chances)) - _RIDGE * coefficients)
    after: Values = coefficients + step / max(1.0, float(np.abs(step).max()))
    return after
