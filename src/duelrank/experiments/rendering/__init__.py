"""Tables as text: the same values for a README, a spreadsheet, a paper and a browser."""

from duelrank.experiments.rendering.html import to_html
from duelrank.experiments.rendering.latex import to_latex
from duelrank.experiments.rendering.markdown import to_markdown
from duelrank.experiments.rendering.separated import to_csv
from duelrank.experiments.rendering.standings import league_csv, league_html, league_markdown

__all__ = ["league_csv", "league_html", "league_markdown", "to_csv", "to_html", "to_latex", "to_markdown"]
