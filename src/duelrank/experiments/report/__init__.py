"""Reports of suites, and the page of algorithms."""

from duelrank.experiments.report.report import Picture, Report, Section, outline

__all__ = ["Picture", "Report", "Section", "outline"]
