"""Estimates what candidates would have been worth on the lists of a log, and says what can be told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from duelrank.core.errors import InvalidValue
from duelrank.core.grammar import parse
from duelrank.core.registry import counted
from duelrank.core.statistics import student_quantile
from duelrank.core.types import Feedback, Gains, Query
from duelrank.core.validation import explained
from duelrank.evaluation.candidates import Candidate, Documents, GivenCandidate, as_candidate, with_candidates
from duelrank.evaluation.clicks import Browsing
from duelrank.evaluation.estimators import DoublyRobust, Estimate, Estimator, Reward, Rewards, estimated
from duelrank.evaluation.lists import Lists, LoggedList, Ranked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: With fewer lists whose order might have been another one, how far users look cannot be learned.
FEWEST_VARIED = 500
#: With a larger share of looks at documents that could not have been shown, there is no estimate.
MOST_UNSUPPORTED = 0.2
#: With fewer lists of its own that would tell as much, there is no estimate.
FEWEST_EFFECTIVE = 100.0

#: What was learned of how far users look may be wrong by this share of the reward that moves: chosen so that intervals of simulated
#: logs contain the truth as often as they should (docs/evaluation.md).
MISJUDGED = 0.02
_ROUNDING = 1e-9  # relative error of sums

Verdict = Literal["better", "worse", "unknown"]
LoggedEntry = tuple[Any, ...]


@dataclass(frozen=True)
class CandidateValue:
    """What a candidate would have been worth, compared with what was shown.

    Parameters
    ----------
    name
        The candidate.
    value, low, high
        The mean reward of its lists, and the ends of its confidence interval; NaN if they cannot be told.
    difference, difference_low, difference_high
        The same of the difference to what was shown.
    effective
        The number of lists, shown as the candidate would, that tell the value with the same precision.
    unsupported
        The share of looks of its users at documents that the logging policy could not have shown.
    verdict
        Whether it is better or worse than what was shown.
    reason
        The verdict in a sentence.
    """

    name: str
    value: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    effective: float
    unsupported: float
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Evaluation:
    """What candidates would have been worth on a log.

    Parameters
    ----------
    reward
        What was estimated: "clicks", "first" or "actions".
    estimator
        The estimator, as a text.
    level
        The probability that an interval does not contain the true value.
    lists, varied
        The number of lists, and of those for which the logging policy might have shown another order.
    shown, shown_low, shown_high
        The mean reward of the lists that were shown, and the ends of its confidence interval.
    candidates
        The candidates.
    """

    reward: Reward
    estimator: str
    level: float
    lists: int
    varied: int
    shown: float
    shown_low: float
    shown_high: float
    candidates: tuple[CandidateValue, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; numbers that cannot be told are None."""
        return {name: _plain(value) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        names = ["shown", *(each.name for each in self.candidates)]
        width = max(map(len, names))
        lines = [f"{'':{width}}  {_TITLES[self.reward]:>8}  interval          difference  interval          lists"]
        shown = f"{self.shown:8.4f}  {_interval(self.shown_low, self.shown_high)}"
        lines.append(f"{'shown':{width}}  {shown}  {'':10}  {'':16}  {self.lists:,}")
        for each in self.candidates:
            value = f"{_number(each.value, '8.4f')}  {_interval(each.low, each.high)}"
            change = f"{_number(each.difference, '+10.4f')}  {_interval(each.difference_low, each.difference_high)}"
            lines.append(f"{each.name:{width}}  {value}  {change}  {each.effective:,.0f}")
        return "\n".join([*lines, "", *(f"{each.name}: {each.reason}" for each in self.candidates)])

    def plot(self) -> Figure:
        """Draw the difference of each candidate to what was shown, with its interval; needs the extra ``plot``."""
        from duelrank.drawing import differences

        found = [(each.name, each.difference, each.difference_low, each.difference_high) for each in self.candidates]
        return differences(found, f"{_TITLES[self.reward]} per list, compared with what was shown: {self.shown:.3g}")


_TITLES = {"clicks": "clicks", "first": "1/first", "actions": "actions"}


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else f"{'–':>{form.lstrip('+').split('.')[0]}}"


def _interval(low: float, high: float) -> str:
    return f"{low:7.4f}, {high:7.4f}" if np.isfinite(low) else f"{'':16}"


@explained
def evaluate(
    log: Iterable[LoggedEntry],
    candidates: Mapping[str, GivenCandidate] | Sequence[GivenCandidate],
    *,
    reward: Reward = "clicks",
    estimator: Estimator | str | None = None,
    level: float = 0.05,
    bias: float | None = None,
    feature_names: Sequence[str] = (),
    length: int | None = None,
) -> Evaluation:
    """Estimate what candidates would have been worth on the lists of a log.

    A log tells what other lists would have been worth only as far as they might have been shown. So for each list, give others that
    the system might have shown instead: `Learner.sample` draws them. Without any, only a known ``bias`` allows an estimate.

    Parameters
    ----------
    log
        For each list the query with all its documents, the rows that were shown, best first, the feedback, and optionally rows of
        other lists that might have been shown, (n, length).
    candidates
        Candidates, or candidates by name; see `duelrank.evaluation.as_candidate`.
    reward
        "clicks" per list, "actions" with their weights, or "first": 1 / (the position of the first action).
    estimator
        The estimator; `DoublyRobust` by default.
    level
        The probability that an interval does not contain the true value.
    bias
        P(position k is seen) = k^−bias, if it is known; None to learn how far users look.
    feature_names
        Names of the features, for candidates that use them by name.
    length
        Number of positions of the candidates' lists; by default that of the longest list in the log.

    Examples
    --------
    A ranker has explored for 2,000 lists without learning. What would sorting by its first feature have been worth?

    >>> import numpy as np
    >>> from duelrank import Feedback, Learner, Query, evaluate
    >>> rng, learner = np.random.default_rng(1), Learner("pdgd", 2, weights=[0.5, 0.0], length=3)
    >>> def visit():
    ...     query = Query("shoes", rng.random((6, 2)))
    ...     shown = learner.rank(query).ranking
    ...     liked = rng.random(3) < query.features[shown, 0] / 2  # users like documents with a large first feature
    ...     return query, shown, Feedback(liked), learner.sample(query, 31)
    >>> found = evaluate([visit() for _ in range(2_000)], {"highest": [1.0, 0.0], "lowest": [-1.0, 0.0]})
    >>> [(each.name, each.verdict) for each in found.candidates]
    [('highest', 'better'), ('lowest', 'worse')]
    """
    given = candidates.items() if isinstance(candidates, Mapping) else [(None, each) for each in candidates]
    chosen = [as_candidate(each, name) for name, each in given]
    lists = Lists.of(_logged(log, chosen, tuple(feature_names), length))
    return evaluate_lists(lists, [each.name for each in chosen], reward, estimator, level, bias)


def _logged(
    log: Iterable[LoggedEntry], candidates: Sequence[Candidate], names: tuple[str, ...], length: int | None
) -> Iterator[LoggedList]:
    longest = 0
    for entry in log:
        if not isinstance(entry, (tuple, list)) or len(entry) not in (3, 4):
            raise InvalidValue(
                f"each entry of a log must be (query, ranking, feedback), or these and other lists, got {entry!r}"
            )
        query = entry[0] if isinstance(entry[0], Query) else Query("", entry[0])
        shown = _checked_rows(entry[1], query.n_documents, "the shown rows")
        sampled = np.empty((0, 0), np.int64) if len(entry) == 3 else _checked_lists(entry[3], query.n_documents)
        longest = max(longest, len(shown))
        gains, documents = _gains(entry[2], len(shown)), Documents(query, names)
        yield with_candidates(documents, shown, gains, sampled, candidates, length or longest)


def _checked_rows(given: ArrayLike, n_documents: int, what: str) -> Ranked:
    """Return different rows of a query, or raise an error."""
    rows = np.asarray(given)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InvalidValue(f"{what} must be numbers from 0 to {n_documents - 1}, got {given!r}")
    if rows.size and (rows.min() < 0 or rows.max() >= n_documents or np.unique(rows).size < rows.size):
        raise InvalidValue(f"{what} must be different numbers from 0 to {n_documents - 1}, got {rows.tolist()}")
    return rows.astype(np.int64)


def _checked_lists(given: ArrayLike, n_documents: int) -> Ranked:
    lists = np.asarray(given)
    if (
        lists.ndim != 2
        or lists.dtype.kind not in "iu"
        or (lists.size and not -1 <= lists.min() <= lists.max() < n_documents)
    ):
        raise InvalidValue(f"other lists must be rows from 0 to {n_documents - 1}, one list a row, got {given!r}")
    return lists.astype(np.int64)


def _gains(given: Any, n_shown: int) -> Gains:
    feedback = given if isinstance(given, Feedback) else Feedback(given)
    if len(feedback.gains) != n_shown:
        raise InvalidValue(f"{n_shown} documents were shown, but the feedback is on {len(feedback.gains)}")
    return feedback.gains


def evaluate_lists(
    lists: Lists,
    names: Sequence[str],
    reward: Reward = "clicks",
    estimator: Estimator | str | None = None,
    level: float = 0.05,
    bias: float | None = None,
) -> Evaluation:
    """Estimate what the candidates of lists would have been worth; see `evaluate` for the parameters."""
    return fitted(lists, reward, bias).evaluate(names, estimator, level)


class FittedLog(NamedTuple):
    """A log with its rewards, and how its users look at lists; None if nothing can be learned of that."""

    rewards: Rewards
    browsing: Browsing | None
    refusal: str

    def evaluate(
        self, names: Sequence[str], estimator: Estimator | str | None = None, level: float = 0.05
    ) -> Evaluation:
        """Estimate what the candidates would have been worth."""
        rewards, lists = self.rewards, self.rewards.lists
        if not 0.0 < level < 1.0:
            raise InvalidValue(f"level is a probability between 0 and 1, got {level!r}")
        how = parse(estimator, Estimator) if isinstance(estimator, str) else estimator or DoublyRobust()
        z, deviation = student_quantile(1.0 - level, len(lists)), float(rewards.of_shown.std())
        found = []
        for name, candidate in zip(names, lists.candidates, strict=True):
            value = None if self.refusal else estimated(how, rewards, self.browsing, candidate)
            found.append(judged(name, value, self.refusal, z, deviation, len(lists)))
        mean, half = float(rewards.of_shown.mean()), z * deviation / np.sqrt(len(lists))
        head = (rewards.reward, repr(how), level, len(lists), int(lists.varied.sum()), mean, mean - half, mean + half)
        return Evaluation(*head, tuple(found))


def fitted(lists: Lists, reward: Reward = "clicks", bias: float | None = None) -> FittedLog:
    """Return the rewards of a log, and how its users look at lists."""
    if reward not in _TITLES:
        raise InvalidValue(f"reward must be one of {', '.join(_TITLES)}, got {reward!r}")
    if bias is not None and not 0.0 <= bias < np.inf:
        raise InvalidValue(f"bias is a number from 0, got {bias!r}")
    if not len(lists):
        raise InvalidValue("the log has no lists, so there is nothing to evaluate")
    rewards = Rewards(lists, reward)
    refusal = _refusal(rewards, int(lists.varied.sum()), bias)
    browsing = None if refusal else Browsing(lists, rewards.happened, bias, ends=reward == "first")
    return FittedLog(rewards, browsing, refusal)


def _refusal(rewards: Rewards, varied: int, bias: float | None) -> str:
    """Return why nothing can be told of any candidate, "" if something can be."""
    if not rewards.happened.any():
        return "no list of the log has an action"
    if varied < FEWEST_VARIED and bias is None:
        few = f"only {varied:,}" if varied else "none"
        return (
            f"{few} of {counted(len(rewards.lists), 'list')} might have had another order, which "
            f"does not show how far users look; at least {FEWEST_VARIED} are needed, or a known bias of positions"
        )
    return ""


def judged(name: str, found: Estimate | None, refusal: str, z: float, deviation: float, n: int) -> CandidateValue:
    """Return what can be told of a candidate.

    Parameters
    ----------
    name
        The candidate.
    found, refusal
        The estimate; None, and why there is none.
    z
        Half-width of the interval, in standard errors.
    deviation
        Standard deviation of the reward of the shown lists.
    n
        Number of lists.
    """
    nothing = float("nan")
    unsupported = 0.0 if found is None else found.unsupported
    effective = 0.0 if found is None else float(min((deviation / max(found.error, 1e-12)) ** 2, 1e12))
    if found is not None and unsupported > MOST_UNSUPPORTED:
        refusal = f"{unsupported:.0%} of what its users would look at are documents that could not have been shown"
    elif found is not None and effective < FEWEST_EFFECTIVE:
        refusal = (
            f"its lists are so unlike those that were shown that {counted(n, 'list')} tell as much as {effective:.0f} of "
            "its own"
        )
    if refusal or found is None:
        told = (nothing, nothing, nothing, nothing, nothing, nothing, effective, unsupported)
        return CandidateValue(name, *told, "unknown", f"cannot be told from this log, because {refusal}")
    below, above = (each + MISJUDGED * found.moved for each in (found.below, found.above))
    value = (found.value, found.value - z * found.error - below, found.value + z * found.error + above)
    half = z * found.difference_error
    low, high = found.difference - half - below, found.difference + half + above
    rounding = _ROUNDING * abs(found.value)
    verdict: Verdict = "better" if low > rounding else "worse" if high < -rounding else "unknown"
    reason = _reason(verdict, found, half, n)
    return CandidateValue(name, *value, found.difference, low, high, effective, unsupported, verdict, reason)


def _reason(verdict: Verdict, found: Estimate, half: float, n: int) -> str:
    if verdict != "unknown":
        share = abs(found.difference) / max(abs(found.value - found.difference), 1e-12)
        return f"{verdict} than what was shown, by about {share:.1%}"
    if max(half, abs(found.difference)) <= _ROUNDING * abs(found.value):
        return "worth the same as what was shown: its lists are the same"
    if found.below + found.above > half:
        what = f"{found.unsupported:.1%} of what its users would look at"
        return f"cannot be told from this log, because {what} could not have been shown"
    needed = n * (half / max(abs(found.difference), 1e-12)) ** 2
    lists = f"about {needed:,.0f} lists" if needed < 100 * n else "more than a hundred times as many lists"
    return f"cannot be told from this log, because the difference is within its error; if it is as estimated, it needs {lists}"


def value_of(log: Iterable[LoggedEntry], ranking: ArrayLike, estimator: Estimator, reward: Reward = "clicks") -> float:
    """Return the estimated mean reward of one ranking on all lists of a log, whatever the log can tell.

    Parameters
    ----------
    log
        As for `evaluate`.
    ranking
        The rows that the candidate shows for every list.
    estimator, reward
        The estimator, and what is estimated.
    """
    rows = np.asarray(ranking)
    lists = Lists.of(_logged(log, [as_candidate(lambda _: rows, "ranking")], (), len(rows)))
    rewards = Rewards(lists, reward)
    browsing = Browsing(lists, rewards.happened, ends=reward == "first") if estimator.browses else None
    return estimated(estimator, rewards, browsing, lists.candidates[0]).value
