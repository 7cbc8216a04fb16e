"""The league table in Markdown, HTML and comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from html import escape

from duelrank.experiments.league import League, Standing
from duelrank.experiments.rendering import markdown, words
from duelrank.experiments.rendering.words import Labels
from duelrank.experiments.tables import Measure

__all__ = ["league_csv", "league_html", "league_markdown", "league_rows"]

_MEASURES: tuple[Measure, Measure] = ("online", "offline")


def league_rows(league: League, labels: Labels | None, bold: Callable[[str], str]) -> Iterator[list[str]]:
    """Yield the header, then a line per algorithm: its place, its name, and its mean by measure and user."""
    yield ["", "algorithm", *(f"{measure} {words.name(u, labels)}" for measure in _MEASURES for u in league.users)]
    for place, standing in enumerate(league.standings, 1):
        yield [str(place), words.name(standing.algorithm, labels), *_numbers(league, standing, bold)]


def _numbers(league: League, standing: Standing, bold: Callable[[str], str]) -> Iterator[str]:
    for measure in _MEASURES:
        for user, spread in enumerate(getattr(standing, measure)):
            mean = words.number(spread.mean, words.digits_of(measure, None))
            yield bold(mean) if spread.mean == league.best(measure, user) else mean


def explanation(league: League) -> str:
    """Say how to read the table."""
    return (
        f"{league.dataset}: means of {league.runs} runs, by the mean online performance over the users. Online: the discounted sum "
        f"of {league.metric} over all lists shown while learning; offline: {league.metric} of the final weights on held-out "
        "queries. Bold: the best with that user."
    )


def league_markdown(league: League, labels: Labels | None = None) -> str:
    """Write the table as GitHub reads it."""
    head, *rows = league_rows(league, labels, lambda text: f"**{text}**")
    lines = [head, ["---:", "---", *("---:" for _ in head[2:])]]
    lines += [[place, markdown.escape(name), *numbers] for place, name, *numbers in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{explanation(league)}\n"


def league_html(league: League, labels: Labels | None = None) -> str:
    """Write the table for the report."""
    head, *rows = league_rows(league, labels, lambda text: f"<strong>{text}</strong>")
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head[1:])
    body = "\n".join(
        f'<tr><th scope="row">{place}. {escape(name)}</th>{"".join(f"<td>{number}</td>" for number in numbers)}</tr>'
        for place, name, *numbers in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="League"><table class="plain">'
        f"<caption><strong>League.</strong> {escape(explanation(league))}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def league_csv(league: League) -> str:
    """Write a line per algorithm, user and measure, numbers in full; microseconds are those of an impression."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("dataset", "metric", "algorithm", "user", "measure", "runs", "mean", "std", "microseconds"))
    for standing in league.standings:
        for measure in _MEASURES:
            for user, spread in zip(league.users, getattr(standing, measure), strict=True):
                place = (league.dataset, league.metric, standing.algorithm, user, measure)
                writer.writerow((*place, league.runs, spread.mean, spread.std, round(standing.microseconds, 1)))
    return text.getvalue()
