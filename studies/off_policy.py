"""Measures how well `duelrank evaluate` estimates what candidates are worth, on simulated logs whose truth is known exactly.

A world is a data set, a kind of user and an exploring recipe that has learned from 1,000 lists and learns no more. Each log has
lists of this policy for random queries, with clicks. The truth is the expected reward of each candidate over all queries, from the
probabilities of the user. For each log and candidate a line of JSON is kept, so that an interrupted study goes on; the tables are
printed at the end, or with --only-tables.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import cache, lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from duelrank import Learner, parse
from duelrank.core.randomness import stream_key
from duelrank.core.statistics import student_quantile
from duelrank.datasets import Dataset
from duelrank.evaluation import CandidateValue, Estimator, Lists
from duelrank.evaluation.estimators import Estimate, estimated
from duelrank.evaluation.evaluation import fitted, judged
from duelrank.evaluation.lists import SAMPLES
from duelrank.evidence import Guard, GuardSpec
from duelrank.evidence.guard import guard_list, outcome_of
from duelrank.kernels.random import derive
from duelrank.users import PBM, Cascade, User

LENGTH, DRAWS, TRAINED = 10, 256, 1_000
#: What identifies a log.
KEY = ("dataset", "user", "recipe", "lists", "seed", "reward", "bias", "distinct")
RECIPES = ("wmgd-dsp", "pdgd", "thompson-pairs", "client")
ESTIMATORS = (
    "ItemPosition(self_normalised=True)",
    "RewardInteraction(self_normalised=True)",
    "Examined()",
    "Examined(self_normalised=True)",
    "DirectMethod()",
)


def expected(user: User, labels: np.ndarray, ranked: np.ndarray, reward: str) -> float:
    """Return the exact expected reward of a list; of the first click only for cascades."""
    grades = labels[ranked[ranked >= 0]]
    if isinstance(user, PBM):
        positions = np.arange(1, len(grades) + 1)
        return float((user.attraction[grades] * positions**-user.decay).sum())
    assert isinstance(user, Cascade)
    click, (stop,), (leave,) = user._tables
    goes_on = click * (1.0 - stop) + (1.0 - click) * (1.0 - leave)
    if reward == "first":
        goes_on = (1.0 - click) * (1.0 - leave)
    seen = np.cumprod(np.concatenate(([1.0], goes_on[grades][:-1])))[: len(grades)]
    worth = 1.0 / np.arange(1, len(grades) + 1) if reward == "first" else 1.0
    return float((seen * click[grades] * worth).sum())


class World:
    """A logging policy, and candidates with their true values.

    Parameters
    ----------
    dataset, user, recipe
        Their texts. The recipe "client" is a deterministic policy, the best single feature; "5% pdgd" is that in 95% of all lists.
    """

    def __init__(self, dataset: str, user: str, recipe: str) -> None:
        fold = parse(dataset, Dataset).fold(1)
        self.split, self.user = fold.train, parse(user, User).for_grades(fold.n_grades)
        self.key = stream_key(1, f"{dataset}/{user}/{recipe}")
        production, weak = self._features()
        share, _, explored = recipe.rpartition("% ")
        learner = self._trained("wmgd-dsp" if recipe == "client" else explored, TRAINED, 1)
        self.candidates = {
            "its best list": self._best(learner),
            "an early version": self._best(self._trained(learner.algorithm, 100, 1)),
            "another recipe": self._best(self._trained("mgd-dsp", 3_000, 2)),
            "a good feature": self._by_feature(production),
            "a weak feature": self._by_feature(weak),
        }
        if recipe == "client":
            self.draws = self.candidates.pop("a good feature")[:, None]
        else:
            self.draws = np.stack([self._rows(learner.sample(query, DRAWS)) for query in self._queries()])
        if share:
            self.draws[:, int(DRAWS * float(share) / 100) :] = self.candidates["a good feature"][:, None]
        self.covariates = self._covariates()

    def _queries(self) -> Any:
        return (self.split.query(index) for index in range(len(self.split)))

    def _features(self) -> tuple[int, int]:
        features, labels = self.split.features, self.split.labels
        with np.errstate(all="ignore"):
            found = np.nan_to_num([np.corrcoef(each, labels)[0, 1] for each in features.T])
        return int(found.argmax()), int(np.argsort(found)[len(found) // 3])

    def _trained(self, recipe: Any, lists: int, seed: int) -> Learner:
        learner = Learner(recipe, self.split.features.shape[1], seed=seed, length=LENGTH)
        rng = np.random.default_rng([self.key, lists, seed])
        for number, index in enumerate(rng.integers(len(self.split), size=lists).tolist()):
            shown = learner.rank(self.split.query(index))
            clicks = self.user.click(self.split.judgements(index)[shown.ranking], derive(self.key, number))
            learner.learn(shown, clicks)
        return learner

    def _rows(self, ranked: np.ndarray) -> np.ndarray:
        full = np.full((*ranked.shape[:-1], LENGTH), -1, np.int16)
        full[..., : ranked.shape[-1]] = ranked[..., :LENGTH]
        return full

    def _best(self, learner: Learner) -> np.ndarray:
        return np.stack([self._rows(learner.best(query)) for query in self._queries()])

    def _by_feature(self, feature: int) -> np.ndarray:
        orders = (np.argsort(-query.features[:, feature], kind="stable") for query in self._queries())
        return np.stack([self._rows(order) for order in orders])

    def _covariates(self) -> np.ndarray:
        features, offsets = np.asarray(self.split.features), self.split.offsets
        low, high = (each.reduceat(features, offsets[:-1]) for each in (np.minimum, np.maximum))
        low, high = (np.repeat(each, np.diff(offsets), axis=0) for each in (low, high))
        with np.errstate(all="ignore"):
            scaled = np.where(high > low, (features - low) / (high - low), 0.5)
        return np.concatenate([np.ones((len(scaled), 1)), scaled], axis=1)

    @cache  # noqa: B019  # worlds live as long as their process
    def truth(self, reward: str) -> dict[str, float]:
        """Return the exact mean reward of each candidate, and of the logging policy as "shown"."""
        every = {**{name: ranked[:, None] for name, ranked in self.candidates.items()}, "shown": self.draws}
        return {name: self._value(lists, reward) for name, lists in every.items()}

    def _value(self, lists: np.ndarray, reward: str) -> float:
        values = [
            np.mean([expected(self.user, self.split.judgements(index), one, reward) for one in each])
            for index, each in enumerate(lists)
        ]
        return float(np.mean(values))

    def roll_out(self, name: str, lists: int, seed: int) -> str:
        """Return what a guard says of a candidate, against the logging policy, after some guard lists."""
        rng, key = np.random.default_rng([self.key, seed, 1]), stream_key(seed, f"roll-out/{self.key}/{name}")
        guard, candidate = Guard.begin(GuardSpec(false_alarm_every=10_000.0)), self.candidates[name]
        for number, index in enumerate(rng.integers(len(self.split), size=lists).tolist()):
            labels = self.split.judgements(index)
            drawn = self.draws[index, rng.integers(self.draws.shape[1])]
            before, after = (_permutation(each, len(labels)) for each in (drawn, candidate[index]))
            ranking, teams = guard_list(before, after, LENGTH, derive(key, 2 * number))
            clicks = self.user.click(labels[ranking], derive(key, 2 * number + 1))
            guard = guard.count(outcome_of(teams, clicks.gains))
        if guard.gain.proves(0.05):
            return "better"
        return "worse" if guard.detector.alarm or guard.period.interval[1] < 0.5 else "unknown"

    def log(self, lists: int, seed: int, distinct: bool = False) -> Lists:
        """Return a log of this policy; ``distinct`` hides that the same document is in several lists."""
        rng, key = np.random.default_rng([self.key, seed]), stream_key(seed, f"log/{self.key}")
        queries = rng.integers(len(self.split), size=lists)
        drawn = rng.integers(self.draws.shape[1], size=(lists, SAMPLES))
        sampled = self.draws[queries[:, None], drawn].astype(np.int64)
        gains = np.zeros((lists, LENGTH))
        for number, index in enumerate(queries.tolist()):
            shown = sampled[number, 0]
            labels = self.split.judgements(index)[shown[shown >= 0]]
            clicks = self.user.click(labels, derive(key, number)).clicks
            gains[number, : len(clicks)] = clicks
        offsets = self.split.offsets
        sizes = np.diff(offsets)[queries]
        first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        rows = np.append(np.arange(sizes.sum()) + np.repeat(offsets[queries] - first, sizes), -1)
        candidates = np.stack([ranked[queries] for ranked in self.candidates.values()]).astype(np.int64)
        entries = _entries(sampled, first[:, None, None])
        covariates = self.covariates
        if distinct:
            covariates, rows = covariates[rows[:-1]], np.append(np.arange(len(rows) - 1), -1)
        return Lists(covariates, rows, entries[:, 0], gains, entries, _entries(candidates, first[:, None]))


def _permutation(top: np.ndarray, n_documents: int) -> np.ndarray:
    """Return all documents, first those at the top."""
    first = top[top >= 0].astype(np.int64)
    return np.concatenate([first, np.setdiff1d(np.arange(n_documents), first)])


def _entries(ranked: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.where(ranked >= 0, ranked + first, -1)


world = lru_cache(maxsize=1)(World)


def evaluated(task: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return a row for each candidate of a log."""
    dataset, user, recipe, lists, seed, reward, estimators, bias, distinct = task
    found = world(dataset, user, recipe)
    log, truth = found.log(lists, seed, distinct), found.truth(reward)
    head = dict(zip(KEY, (dataset, user, recipe, lists, seed, reward, bias, distinct), strict=True))
    rows, fit = [], fitted(log, reward, bias)
    for estimator, (name, candidate) in product(estimators, zip(found.candidates, log.candidates, strict=True)):
        how = parse(estimator, Estimator)
        raw = {} if fit.refusal else estimated(how, fit.rewards, fit.browsing, candidate)._asdict()
        true = {"true": truth[name], "true_shown": truth["shown"], "deviation": float(fit.rewards.of_shown.std())}
        rows.append({**head, "estimator": estimator, "name": name, "refusal": fit.refusal, "raw": raw, **true})
    return rows


def rolled_out(task: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return a row for each candidate: what `duelrank evaluate` says of a log, and what a guard says after it."""
    dataset, user, recipe, lists, seed, reward, _, bias, distinct, guarded = task
    before = evaluated((dataset, user, recipe, lists, seed, reward, ("DoublyRobust()",), bias, distinct))
    found = world(dataset, user, recipe)
    return [{**row, "guard": found.roll_out(row["name"], guarded, seed)} for row in before]


def told(row: dict[str, Any]) -> CandidateValue:
    """Return what `duelrank evaluate` says of a candidate at level .05."""
    raw = Estimate(**row["raw"]) if row["raw"] else None
    return judged(
        row["name"], raw, row["refusal"], student_quantile(0.95, row["lists"]), row["deviation"], row["lists"]
    )


def tasks(asked: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Return the logs to make, those of one world after another within a block of seeds."""
    found = []
    datasets, users, recipes = (each.split(";") for each in (asked.datasets, asked.users, asked.recipes))
    for block in range(0, asked.logs, asked.block):
        for dataset, user, recipe in product(datasets, users, recipes):
            for seed in range(block + 1, min(asked.logs, block + asked.block) + 1):
                estimators = ("DoublyRobust()", *(ESTIMATORS if seed <= asked.all_estimators else ()))
                task = (dataset, user, recipe, asked.lists, seed, asked.reward, estimators, asked.bias, asked.distinct)
                found.append((*task, asked.guard_lists) if asked.guard_lists else task)
    return found


def main() -> None:
    """Make the logs that are missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", default="mq2007;mq2008;synthetic(n_queries=500)", help="separated by ;")
    parser.add_argument("--users", default="perfect;navigational;informational", help="separated by ;")
    parser.add_argument("--recipes", default=";".join(RECIPES[:3]), help="separated by ;")
    parser.add_argument("--logs", type=int, default=37, help="for each data set, user and recipe")
    parser.add_argument("--lists", type=int, default=10_000)
    parser.add_argument("--reward", default="clicks", choices=("clicks", "first"))
    parser.add_argument("--bias", type=float)
    parser.add_argument("--distinct", action="store_true", help="hide that documents are in several lists")
    parser.add_argument("--guard-lists", type=int, default=0, help="guard lists of a roll-out after each log")
    parser.add_argument("--all-estimators", type=int, default=3, help="logs of each world for all estimators")
    parser.add_argument("--block", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", type=Path, default=Path("results/off-policy.ndjson"))
    parser.add_argument("--only-tables", action="store_true")
    asked = parser.parse_args()
    asked.results.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in asked.results.open()] if asked.results.exists() else []
    known = {key(row) for row in rows}
    missing = [] if asked.only_tables else [task for task in tasks(asked) if (*task[:6], *task[7:9]) not in known]
    with asked.results.open("a") as file, get_context("spawn").Pool(asked.workers) as pool:
        for number, found in enumerate(
            pool.imap(rolled_out if asked.guard_lists else evaluated, missing, chunksize=asked.block), 1
        ):
            rows += found
            file.writelines(json.dumps(row) + "\n" for row in found)
            file.flush()
            print(f"{number} of {len(missing)} logs", end="\r", flush=True)
    print_tables(rows)
    print_agreement([row for row in rows if "guard" in row])


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies the log of a row."""
    return tuple(row[name] for name in KEY)


def print_tables(rows: list[dict[str, Any]]) -> None:
    """Print coverage and precision by estimator, by policy and user, and by candidate."""
    for names in (("reward", "lists", "estimator"), ("dataset", "user"), ("recipe",), ("name",)):
        chosen = rows if "estimator" in names else [each for each in rows if each["estimator"] == "DoublyRobust()"]
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in chosen:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
        print(f"\n{' '.join(names)}: estimates, given, covered, relative bias, half-width, sign right, verdicts, right")
        for group, found in groups.items():
            print(" ".join(map(str, group)), "|", summary(found))


def print_agreement(rows: list[dict[str, Any]]) -> None:
    """Print how often each verdict before a roll-out was followed by each verdict of its guard."""
    counts = Counter((told(row).verdict, row["guard"]) for row in rows)
    for (before, after), count in sorted(counts.items()):
        print(f"evaluated {before:8} guard {after:8} {count}")


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the numbers of a line."""
    both = [(row, each) for row in rows if np.isfinite((each := told(row)).value)]
    if not both:
        return f"{len(rows)} | 0%"
    truth = np.array([row["true"] - row["true_shown"] for row, _ in both])
    found, low, high = np.array([(each.difference, each.difference_low, each.difference_high) for _, each in both]).T
    covered = (low <= truth) & (truth <= high)
    scale = np.array([row["true_shown"] for row, _ in both])
    clear = np.array([each.verdict != "unknown" for _, each in both])
    right = np.sign(found) == np.sign(truth)
    verdicts = f"{clear.mean():.0%} | {right[clear].mean():.1%}" if clear.any() else "0% | –"
    return (
        f"{len(rows)} | {len(both) / len(rows):.0%} | {covered.mean():.1%} | {((found - truth) / scale).mean():+.2%} | "
        f"{np.median((high - low) / 2 / scale):.2%} | {right.mean():.1%} | {verdicts}"
    )


if __name__ == "__main__":
    main()
