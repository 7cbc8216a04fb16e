"""Writes the reports of suites, and the documentation page of algorithms."""

from duelrank.experiments.report.report import Picture, Report, Section, outline

__all__ = ["Picture", "Report", "Section", "outline"]
