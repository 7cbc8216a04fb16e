"""The answer of a comparison: a sentence that names the best, its lead, and whether that is significant."""

from dataclasses import replace

from duelrank.experiments import summarise
from duelrank.experiments.answer import answer, leads
from duelrank.experiments.summary import Estimate, Summary


def estimate(algorithm, mean, user="perfect", dataset="d", **more):
    return Estimate("online", "nDCG@10", dataset, user, algorithm, "", 5, mean, 1.0, 1.0, **more)


def summary(*estimates, measure="online"):
    return Summary(measure, "nDCG@10", "", tuple(replace(each, measure=measure) for each in estimates))


def test_one_winner_with_its_lead_over_the_baseline():
    better = estimate("a", 11.0, baseline="b", change=0.1, p=0.0312)
    found = answer([summary(better, estimate("b", 10.0))], {"a": "A", "b": "B"})
    assert found == "A collects the most reward with perfect users (+10.0% against B, p = 0.031)."


def test_other_users_other_winners():
    cells = [
        estimate("a", 11.0, baseline="b", change=0.1, p=0.0002),
        estimate("b", 10.0),
        estimate("a", 9.0, "noisy", baseline="b", change=-0.1, p=0.4),
        estimate("b", 10.0, "noisy"),
    ]
    assert answer([summary(*cells, measure="offline")]) == (
        "a has the best final weights with perfect users (+10.0% against b, p < 0.001); "
        "b with noisy users (+11.1% against a, not significant)."
    )


def test_what_was_not_tested_says_so():
    assert answer([summary(estimate("a", 11.0), estimate("b", 10.0))]).endswith("(+10.0% against b, not tested).")
    assert answer([summary(estimate("a", 11.0), estimate("b", 0.0))]).endswith("(not compared).")


def test_many_data_sets_are_counted():
    cells = [
        estimate(
            "ab"[name],
            float(name == winner),
            user,
            dataset,
            **({"baseline": "b", "change": 0.1, "p": p} if not name else {}),
        )
        for dataset, user, winner, p in (("d", "x", 0, 0.01), ("d", "y", 0, 0.2), ("e", "x", 1, 0.3))
        for name in (0, 1)
    ]
    assert answer([summary(*cells)]) == (
        "a collects the most reward in 2 of 3 pairs of a data set and a user, b in 1; 1 of 3 tested leads are significant."
    )


def test_one_algorithm_needs_no_answer():
    assert answer([summary(estimate("a", 1.0))]) == ""


def test_leads_agree_with_the_table(frame):
    found = summarise(frame(n=3), "online")
    assert [lead.best.mean for lead in leads(found)] == [each.mean for each in found.estimates if each.best]
