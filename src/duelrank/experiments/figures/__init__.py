"""From numbers to pictures, readable in print and in grey: frames in, matplotlib figures out."""

from duelrank.experiments.figures.ablation import Arm, ablation
from duelrank.experiments.figures.curves import run_curves
from duelrank.experiments.figures.learning import learning_curves
from duelrank.experiments.figures.saving import check_target, save, to_svg
from duelrank.experiments.figures.sweep import sweep

__all__ = ["Arm", "ablation", "check_target", "learning_curves", "run_curves", "save", "sweep", "to_svg"]
