"""Estimators of what a candidate's lists would have been worth, from lists that another policy has shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from duelrank.core.registry import Part, register
from duelrank.evaluation.clicks import STEP, Browsing, Looks, by_entry
from duelrank.evaluation.lists import Lists, Ranked, Values

Reward = Literal["clicks", "first", "actions"]
#: The largest weight of a first action. Below documents that nearly always have one, no first action is ever seen: such a list
#: tells nothing of what its other documents would be worth elsewhere.
LARGEST_WEIGHT = 30.0
_NOTHING = 1e-12


class Rewards:
    """A log whose lists have a reward: the sum over positions of a gain there and the worth of the position.

    Parameters
    ----------
    lists
        The log.
    reward
        "clicks" counts positions with an action, "actions" adds their weights, and "first" is 1 / (the first position with one).
    """

    def __init__(self, lists: Lists, reward: Reward) -> None:
        self.lists, self.reward = lists, reward
        acted = lists.gains > 0.0
        first = reward == "first"
        #: Whether the event happened, and its gain; both of the first action only if the reward is that of the first.
        self.happened = acted & (acted.cumsum(axis=1) == 1) if first else acted
        self.gains = lists.gains if reward == "actions" else self.happened.astype(np.float64)
        #: What a gain at each position is worth.
        self.worth = 1.0 / np.arange(1, lists.length + 1) if first else np.ones(lists.length)
        #: The mean gain of an event, and the reward of each shown list.
        self.mean_gain = float(self.gains.sum() / max(1, int(self.happened.sum())))
        self.of_shown: Values = (self.gains * self.worth).sum(axis=1)


class Contributions(NamedTuple):
    """What each list contributes to the value of a candidate: the value is the mean.

    ``unsupported`` is the share of what users of the candidate would look at that the logging policy could not have shown, and
    ``below`` and ``above`` are how much the value may be wrong because of it. ``moved`` is how much reward documents would get at
    other positions than in the log, so that it depends on how far users look.
    """

    values: Values
    unsupported: float
    below: float
    above: float
    moved: float = 0.0


@dataclass(frozen=True, repr=False)
class Estimator(Part, ABC):
    """Estimates the mean reward of a candidate's lists."""

    kind: ClassVar[str] = "estimator"
    #: Whether it needs a model of how users look at lists.
    browses: ClassVar[bool] = True

    @abstractmethod
    def contributions(self, rewards: Rewards, looks: Looks | None, candidate: Ranked) -> Contributions:
        """Return what each list contributes to the value of a candidate.

        Parameters
        ----------
        rewards, looks
            The log, and how much its users look at documents; None if the estimator does not need it.
        candidate
            (n, length), the entries of the candidate's lists.
        """


@dataclass(frozen=True, repr=False)
class _Matching(Estimator):
    """Weighs what happened where the candidate's list matches the one that was shown."""

    browses: ClassVar[bool] = False

    self_normalised: bool = False

    @abstractmethod
    def _matches(self, ranked: Ranked, other: Ranked) -> Values:
        """Return whether two lists match at each position."""

    def contributions(self, rewards: Rewards, looks: Looks | None, candidate: Ranked) -> Contributions:
        """Return the weighted gains at matching positions."""
        lists = rewards.lists
        there = candidate >= 0
        chance = self._matches(lists.sampled, lists.shown[:, None, :]).mean(axis=1)
        weights = self._matches(candidate, lists.shown) / np.maximum(chance, _NOTHING)
        gains = rewards.gains * rewards.worth
        possible = self._matches(lists.sampled, candidate[:, None, :]).any(axis=1)
        missed = float((there & ~possible).sum() / max(1, there.sum()))
        values = weights * gains
        if self.self_normalised:
            mean = weights.mean(axis=0)
            rate = values.mean(axis=0) / np.maximum(mean, _NOTHING)
            share = there.mean(axis=0)
            # The ratio of two means, linearised around it: its mean is the ratio, its deviation that of the ratio.
            values = np.where(mean > 0.0, share * (rate + (values - rate * weights) / np.maximum(mean, _NOTHING)), 0.0)
        return Contributions(values.sum(axis=1), missed, 0.0, 0.0)


@register
@dataclass(frozen=True, repr=False)
class ItemPosition(_Matching):
    """Inverse propensities of documents at positions: a gain counts if the candidate has the same document at the same position.

    It is weighted by 1 / P(document at position) under the logging policy. This assumes that what happens at a position depends on
    the document and the position only. A document that the logging policy rarely has at that position is lost if no draw has it.

    Parameters
    ----------
    self_normalised
        Whether weights are divided by their mean at each position: less variance, a small bias.

    References
    ----------
    Li, Kim, Kveton and Muthukrishnan et al., "Offline evaluation of ranking policies with click models" (KDD 2018); Swaminathan and
    Joachims, "The self-normalized estimator for counterfactual learning" (NIPS 2015).

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.evaluation import ItemPosition, value_of
    >>> rng, orders = np.random.default_rng(1), np.array([[0, 1], [1, 0]])  # the log has each order in half of all lists
    >>> log = [([[0.0], [1.0]], each, [1, 0], rng.choice(orders, 31)) for each in rng.choice(orders, 500)]  # all click on top
    >>> round(value_of(log, [0, 1], ItemPosition()), 1)
    1.0
    """

    def _matches(self, ranked: Ranked, other: Ranked) -> Values:
        found: Values = (ranked == other) & (ranked >= 0)
        return found


@register
@dataclass(frozen=True, repr=False)
class RewardInteraction(_Matching):
    """Inverse propensities of the tops of lists: a gain counts if the candidate has the same documents down to its position.

    It is weighted by 1 / P(the same documents down to there) under the logging policy. This assumes only that users go down the
    list, as every cascade does; the chance that two lists match down to position ten is small, so most of the value is lost there.

    Parameters
    ----------
    self_normalised
        Whether weights are divided by their mean at each position.

    References
    ----------
    McInerney, Brost, Chandar, Mehrotra and Carterette, "Counterfactual evaluation of slate recommendations with sequential reward
    interactions" (KDD 2020).

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.evaluation import RewardInteraction, value_of
    >>> rng, orders = np.random.default_rng(1), np.array([[0, 1], [1, 0]])
    >>> log = [([[0.0], [1.0]], each, each == 1, rng.choice(orders, 31)) for each in rng.choice(orders, 500)]  # all want one
    >>> round(value_of(log, [0, 1], RewardInteraction()), 1)
    1.0
    """

    def _matches(self, ranked: Ranked, other: Ranked) -> Values:
        same: Values = np.logical_and.accumulate((ranked == other) & (ranked >= 0), axis=-1)
        return same


class _Transfer:
    """How much more users look at each document in a candidate's list than in those of the logging policy."""

    def __init__(self, rewards: Rewards, looks: Looks, candidate: Ranked) -> None:
        shown = rewards.lists.shown
        #: The looks at each position of the candidate's lists, each with the worth of its position.
        self.looks: Values = looks.seen(candidate) * rewards.worth
        by_candidate = by_entry(candidate, self.looks, rewards.lists.n_entries)
        largest = LARGEST_WEIGHT if rewards.reward == "first" else np.inf
        supported = (looks.by_policy > 0.0) & (by_candidate <= largest * np.maximum(looks.by_policy, _NOTHING))
        #: The weight of each shown document.
        self.weights: Values = np.where(supported, by_candidate / np.maximum(looks.by_policy, _NOTHING), 0.0)[shown]
        attraction = rewards.mean_gain * looks.attraction
        #: The gain at each shown position that the click model expects, and the reward of each of the candidate's lists.
        self.expected_gains: Values = looks.shown * attraction[shown]
        expected = self.looks * attraction[candidate]
        self.expected: Values = expected.sum(axis=1)
        lost = ~supported[candidate]
        #: The share of looks at documents that the logging policy could not have shown, and the mean reward expected of these.
        self.unsupported = float(self.looks[lost].sum() / max(_NOTHING, self.looks.sum()))
        self.expected_loss = float(expected[lost].sum() / max(1, len(candidate)))
        changes = np.abs(by_candidate - looks.by_policy_worth(rewards.worth))
        #: The mean reward that documents get more, or less, than in lists of the logging policy.
        self.moved = float((changes * attraction).sum() / max(1, len(candidate)))


@register
@dataclass(frozen=True, repr=False)
class Examined(Estimator):
    """Inverse propensities of being seen: a gain counts as often as users of the candidate look at the document, against the log.

    Its weight is P(see the document in the candidate's list) / P(see it in a list of the logging policy), wherever both have it.
    How far users look is learned from the randomness of the log (`Browsing`). With position bias this is the estimator of Li et al.
    for position-based click models; here looks may also depend on the documents above.

    Parameters
    ----------
    self_normalised
        Whether weights are divided by their mean, over all looks.

    References
    ----------
    Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay and Wen, "Offline evaluation of ranking policies with click models" (KDD 2018).

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.evaluation import Examined, value_of
    >>> rng, orders = np.random.default_rng(1), np.array([[0, 1], [1, 0]])
    >>> log = [([[0.0], [1.0]], each, each == 1, rng.choice(orders, 31)) for each in rng.choice(orders, 500)]  # all want one
    >>> round(value_of(log, [0, 1], Examined()), 1)
    1.0
    """

    self_normalised: bool = False

    def contributions(self, rewards: Rewards, looks: Looks | None, candidate: Ranked) -> Contributions:
        """Return the weighted gains of each list."""
        assert looks is not None
        found = _Transfer(rewards, looks, candidate)
        values = (found.weights * rewards.gains).sum(axis=1)
        if self.self_normalised:
            own, wanted = (found.weights * looks.shown).sum(axis=1), found.looks.sum(axis=1)
            rate = values.mean() / max(_NOTHING, own.mean())
            values = rate * wanted + wanted.mean() / max(_NOTHING, own.mean()) * (values - rate * own)
            return Contributions(values, found.unsupported, found.expected_loss, found.expected_loss, found.moved)
        return Contributions(values, found.unsupported, 0.0, 2.0 * found.expected_loss, found.moved)


@register
@dataclass(frozen=True, repr=False)
class DirectMethod(Estimator):
    """What the fitted click model expects of the candidate's lists; biased as far as the model is wrong.

    References
    ----------
    Dudík, Langford and Li, "Doubly robust policy evaluation and learning" (ICML 2011).

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.evaluation import DirectMethod, value_of
    >>> rng, orders = np.random.default_rng(1), np.array([[0, 1], [1, 0]])
    >>> log = [([[0.0], [1.0]], each, each == 1, rng.choice(orders, 31)) for each in rng.choice(orders, 2_000)]  # all want one
    >>> round(value_of(log, [0, 1], DirectMethod()), 2)  # the true value is 1
    0.95
    """

    def contributions(self, rewards: Rewards, looks: Looks | None, candidate: Ranked) -> Contributions:
        """Return the expected reward of each of the candidate's lists."""
        assert looks is not None
        found = _Transfer(rewards, looks, candidate)
        return Contributions(found.expected, found.unsupported, found.expected_loss, found.expected_loss, found.moved)


@register
@dataclass(frozen=True, repr=False)
class DoublyRobust(Estimator):
    """What the click model expects, corrected by what happened: the default.

    The correction is that of `Examined`, of the difference between each gain and its expectation. If the model of how far users
    look is right, the estimate is right whatever the attraction of documents is, for all documents that the logging policy might
    have shown. For the others, their expected reward may be between nothing and twice what the model says, and the interval is that
    much wider.

    References
    ----------
    Dudík, Langford and Li, "Doubly robust policy evaluation and learning" (ICML 2011); Kiyohara, Saito, Matsuhiro, Narita, Shimizu
    and Yamamoto, "Doubly robust off-policy evaluation for ranking policies under the cascade behavior model" (WSDM 2022).

    Examples
    --------
    >>> import numpy as np
    >>> from duelrank.evaluation import DoublyRobust, value_of
    >>> rng, orders = np.random.default_rng(1), np.array([[0, 1], [1, 0]])
    >>> log = [([[0.0], [1.0]], each, each == 1, rng.choice(orders, 31)) for each in rng.choice(orders, 500)]  # all want one
    >>> round(value_of(log, [0, 1], DoublyRobust()), 1)
    1.0
    """

    def contributions(self, rewards: Rewards, looks: Looks | None, candidate: Ranked) -> Contributions:
        """Return the expected reward of each list, corrected."""
        assert looks is not None
        found = _Transfer(rewards, looks, candidate)
        values = found.expected + (found.weights * (rewards.gains - found.expected_gains)).sum(axis=1)
        return Contributions(values, found.unsupported, found.expected_loss, found.expected_loss, found.moved)


class Estimate(NamedTuple):
    """The value of a candidate, its difference to what was shown, and the standard error of each.

    ``below`` and ``above`` are how much both may be wrong because documents could not have been shown, and ``unsupported`` the
    share of looks at such documents; ``moved`` is the reward that depends on what was learned of how far users look.
    """

    value: float
    error: float
    difference: float
    difference_error: float
    below: float
    above: float
    unsupported: float
    moved: float


def estimated(estimator: Estimator, rewards: Rewards, browsing: Browsing | None, candidate: Ranked) -> Estimate:
    """Return the estimate for one candidate, with errors that contain those of how far users look."""
    looks = None if browsing is None else browsing.looks
    found = estimator.contributions(rewards, looks, candidate)
    influence = found.values
    if browsing is not None and browsing.nearby:  # what each list adds through the fitted coefficients
        slopes = [
            np.subtract(*(estimator.contributions(rewards, each, candidate).values.mean() for each in pair))
            / (2.0 * STEP)
            for pair in browsing.nearby
        ]
        influence = influence + len(influence) * (browsing.scores @ np.linalg.solve(browsing.information, slopes))
    difference, root = influence - rewards.of_shown, np.sqrt(max(1, len(influence)))
    return Estimate(
        float(found.values.mean()),
        float(influence.std() / root),
        float((found.values - rewards.of_shown).mean()),
        float(difference.std() / root),
        found.below,
        found.above,
        found.unsupported,
        found.moved if browsing is not None and browsing.nearby else 0.0,
    )
