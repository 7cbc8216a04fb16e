"""Draws learning curves in the terminal: braille dots over a logarithmic x axis, with a label at the end of each line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

COLOURS = ("blue", "bright_cyan", "red", "yellow", "magenta", "green")

# The dots of one character, by row and column, as bits added to U+2800.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


@dataclass(frozen=True)
class Series:
    """One line of a chart; dashes distinguish lines where colours are not available."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False


def chart(series: Sequence[Series], width: int = 80, height: int = 13) -> Text:
    """Draw the series into ``width`` characters, with one scale for all lines; x must be positive."""
    height = max(height, len(series))  # a row for each name
    names = _end_labels(series, height)
    columns = max(10, width - 9 - max(15, *(len(name) for name, _ in names.values())))
    canvas = _Canvas(series, columns, height)
    for index, line in enumerate(series):
        canvas.draw(line, COLOURS[index % len(COLOURS)])
    text = Text(no_wrap=True, overflow="crop")
    for row in range(height):
        text.append(canvas.tick(row), style="dim").append_text(canvas.row(row))
        if row in names:
            name, colour = names[row]
            text.append(f" {name}", style=colour)
        text.append("\n")
    return text.append(canvas.x_axis(), style="dim")


def _end_labels(series: Sequence[Series], height: int) -> dict[int, tuple[str, str]]:
    """Place each name at the end of its line; names of lines that end at the same height are moved apart."""
    low, high = _range(series)
    order = sorted(range(len(series)), key=lambda index: -series[index].y[-1])
    rows: list[int] = []
    for rank, index in enumerate(order):
        row = round((high - series[index].y[-1]) / (high - low) * (height - 1))
        row = min(row, height - len(order) + rank)  # leave room for those below
        rows.append(max(row, rows[-1] + 1) if rows else max(row, 0))
    places = zip(rows, order, strict=True)
    return {
        row: (f"{series[index].name} {series[index].y[-1]:.3f}", COLOURS[index % len(COLOURS)]) for row, index in places
    }


def _range(series: Sequence[Series]) -> tuple[float, float]:
    low, high = min(min(line.y) for line in series), max(max(line.y) for line in series)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


class _Canvas:
    """A grid of characters, each of two by four dots."""

    def __init__(self, series: Sequence[Series], columns: int, height: int) -> None:
        self.columns, self.height = columns, height
        self.low, self.high = _range(series)
        self.left = math.log10(min(min(line.x) for line in series))
        self.right = math.log10(max(max(line.x) for line in series))
        self.bits = [[0] * columns for _ in range(height)]
        self.colours = [[""] * columns for _ in range(height)]

    def draw(self, line: Series, colour: str) -> None:
        """Set the dots of one line."""
        for step, (x, y) in enumerate(self._dots(line)):
            if not line.dashed or step % 6 < 3:
                row, column = y // 4, x // 2
                self.bits[row][column] |= _DOTS[y % 4][x % 2]
                self.colours[row][column] = colour

    def row(self, row: int) -> Text:
        """Return one row of characters with their colours."""
        text = Text()
        for bits, colour in zip(self.bits[row], self.colours[row], strict=True):
            text.append(chr(0x2800 + bits) if bits else " ", style=colour)
        return text

    def tick(self, row: int) -> str:
        """Return the y axis of one row, with a number in every third row."""
        value = self.high - row / (self.height - 1) * (self.high - self.low)
        return f"{value:6.3f} ┤" if row % 3 == 0 or row == self.height - 1 else "       │"

    def x_axis(self) -> str:
        """Return the line below, and the powers of ten below that."""
        line, labels = list("─" * self.columns), [" "] * (self.columns + 4)
        for power in range(math.ceil(self.left), math.floor(self.right) + 1):
            at = self._x(power) // 2
            line[at] = "┬"
            label = f"{10**power:,}"
            start = max(0, min(at - len(label) // 2, len(labels) - len(label)))
            labels[start : start + len(label)] = label
        return f"       └{''.join(line)}\n        {''.join(labels).rstrip()} impressions"

    def _x(self, power: float) -> int:
        share = (power - self.left) / (self.right - self.left) if self.right > self.left else 0.0
        return round(share * (2 * self.columns - 1))

    def _y(self, value: float) -> int:
        return round((self.high - value) / (self.high - self.low) * (4 * self.height - 1))

    def _dots(self, line: Series) -> Iterator[tuple[int, int]]:
        points = [(self._x(math.log10(x)), self._y(y)) for x, y in zip(line.x, line.y, strict=True)]
        yield points[0]
        for (x0, y0), (x1, y1) in pairwise(points):
            steps = max(abs(x1 - x0), abs(y1 - y0), 1)
            for step in range(1, steps + 1):
                yield round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps)
