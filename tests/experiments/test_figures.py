"""Figures of frames: what is drawn, not how its pixels look."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from duelrank.core.errors import InvalidValue, StorageFailure, UnknownName
from duelrank.experiments import Frame
from duelrank.experiments.figures import (
    Arm,
    ablation,
    check_target,
    family_styles,
    learning_curves,
    performance,
    save,
    sweep,
    to_svg,
    write_figure,
)
from duelrank.experiments.summary import half_width, half_widths

FIGURES = {
    "curves": lambda runs: learning_curves(runs),
    "sweep": lambda runs: sweep(runs, [(0.0, "mgd"), (1.0, "mgd-dsp")], "online", "λ", "MGD"),
    "performance": lambda runs: performance(runs),
    "ablation": lambda runs: ablation(runs, [Arm("no", "none", "mgd"), Arm("yes", "none", "mgd-dsp")]),
}


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


class TestCurves:
    def test_a_panel_per_user_with_mean_and_band(self, frame):
        runs = frame()
        figure = learning_curves(runs)
        assert [panel.get_title() for panel in figure.axes] == ["perfect", "informational"]
        assert figure.axes[0].get_ylabel() == "offline nDCG@10"
        for panel in figure.axes:
            assert panel.get_xscale() == "log"
            for line, band in zip(panel.get_lines(), panel.collections, strict=True):
                curves = np.array(list(runs.where(user=panel.get_title(), algorithm=line.get_label())["offline_curve"]))
                mean, width = curves.mean(axis=0), half_widths(curves)
                assert line.get_xdata().tolist() == [1, 10, 100]
                assert line.get_ydata() == pytest.approx(mean)
                heights = band.get_paths()[0].vertices[:, 1]
                assert (heights.min(), heights.max()) == pytest.approx(((mean - width).min(), (mean + width).max()))

    def test_families_share_a_colour_and_differ_in_grey(self, frame):
        lines = {line.get_label(): line for line in learning_curves(frame()).axes[0].get_lines()}
        assert lines["mgd"].get_color() == lines["mgd-dsp"].get_color() != lines["dbgd"].get_color()
        assert (lines["mgd"].get_linestyle(), lines["mgd-dsp"].get_linestyle()) == ("--", "-")
        assert lines["mgd"].get_marker() != lines["dbgd"].get_marker()
        assert lines["dbgd"].get_linestyle() == "-"  # dashed means: its projection is there too

    def test_labels_and_skyline(self, frame):
        figure = learning_curves(frame(), "cosine_curve", {"mgd": "MGD"}, skyline=0.9, skyline_label="from all labels")
        assert legend(figure) == ["MGD", "mgd-dsp", "dbgd", "from all labels"]
        assert all(panel.get_lines()[-1].get_ydata() == [0.9, 0.9] for panel in figure.axes)
        assert figure.axes[0].get_ylabel() == "cosine to the reference"

    def test_one_run_has_no_band(self, frame):
        assert all(len(panel.collections) == 0 for panel in learning_curves(frame(n=1)).axes)

    def test_bands_do_not_stretch_the_axis_beyond_what_is_possible(self, run):
        runs = Frame.of(run(fold=i, offline_curve=curve) for i, curve in enumerate(([0, 0, 0], [1, 1, 1])))
        assert learning_curves(runs).axes[0].get_ylim() == (0.0, 1.0)

    def test_runs_without_the_curve_are_refused(self, run):
        with pytest.raises(InvalidValue, match="cosine_curve"):
            learning_curves(Frame.of([run(), run(fold=2, cosine_curve=[])]), "cosine_curve")

    def test_a_dollar_is_no_formula(self, run):
        to_svg(learning_curves(Frame.of([run("a $ b_{ $")]), title="$"))


class TestStyles:
    def test_the_base_is_dashed_and_all_members_differ_in_grey(self):
        styles = family_styles({"mgd": "", "mgd-dsp": "mgd", "mgd-gt": "mgd", "dbgd": ""})
        assert (styles["mgd"]["linestyle"], styles["mgd-dsp"]["linestyle"]) == ("--", "-")
        assert styles["dbgd"]["linestyle"] == "-"
        assert len({styles[name]["color"] for name in ("mgd", "mgd-dsp", "mgd-gt")}) == 1
        grey = {(str(s["linestyle"]), s["marker"], s["markerfacecolor"] == "white") for s in styles.values()}
        assert len(grey) == 4


class TestSweep:
    points = ((1.0, "mgd-dsp"), (0.0, "mgd-dsp(strength=0.0)"))

    def runs(self, frame):
        bases = {"mgd-dsp(strength=0.0)": "mgd"}
        runs = frame(algorithms=("mgd", "mgd-dsp", *bases))
        return Frame.of({**row, "base": bases.get(row["algorithm"], row["base"])} for row in runs.rows())

    def test_points_from_left_to_right_with_intervals_and_the_base(self, frame):
        runs = self.runs(frame)
        figure = sweep(runs, self.points, "online", "λ", "MGD-DSP", ("MGD", "mgd"))
        assert legend(figure) == ["MGD-DSP", "MGD"]
        for panel in figure.axes:
            here = runs.where(user=panel.get_title())
            values = [here.where(algorithm=name)["online_performance"] for _, name in sorted(self.points)]
            (container,) = panel.containers
            assert container.lines[0].get_xdata().tolist() == [0.0, 1.0]
            assert container.lines[0].get_ydata() == pytest.approx([found.mean() for found in values])
            bars = [segment[:, 1] for segment in container.lines[2][0].get_segments()]
            assert [(high - low) / 2 for low, high in bars] == pytest.approx([half_width(found) for found in values])
            level = here.where(algorithm="mgd")["online_performance"].mean()
            assert any(
                line.get_linestyle() == "--" and line.get_ydata() == pytest.approx([level, level])
                for line in panel.get_lines()
            )
            assert panel.get_xlabel() == "λ"

    def test_a_recipe_without_projection_is_not_called_projected(self, frame):
        figure = sweep(frame(algorithms=("mgd", "dbgd")), [(9, "mgd"), (49, "dbgd")], "offline", "n", "MGD")
        assert legend(figure) == ["MGD"]

    def test_unknown_recipes_are_named(self, frame):
        with pytest.raises(UnknownName, match="mgd-dps"):
            sweep(frame(), [(1.0, "mgd-dps")], "online", "λ", "x")
        with pytest.raises(UnknownName, match="no algorithm of these runs is called 'x'"):
            sweep(frame(), [(1.0, "mgd")], "online", "λ", "x", ("X", "x"))
        with pytest.raises(InvalidValue, match="at least one"):
            sweep(frame(), [], "online", "λ", "x")


class TestPerformance:
    def test_a_point_with_its_interval_for_every_algorithm(self, frame):
        runs = frame()
        figure = performance(runs, {"mgd": "MGD"})
        assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["MGD", "mgd-dsp", "dbgd"]
        for measure, panel in zip(("online", "offline"), (figure.axes[0], figure.axes[2]), strict=True):
            assert panel.get_xlabel() == f"{measure} nDCG@10"
            for name, container in zip(("mgd", "mgd-dsp", "dbgd"), panel.containers, strict=True):
                values = runs.where(user="perfect", algorithm=name)[f"{measure}_performance"]
                assert container.lines[0].get_xdata() == pytest.approx([values.mean()])
                ((low, high),) = (segment[:, 0] for segment in container.lines[2][0].get_segments())
                assert (high - low) / 2 == pytest.approx(half_width(values))


class TestAblation:
    arms = (Arm("no", "none", "mgd"), Arm("no", "unit", "dbgd"), Arm("yes", "unit", "mgd-dsp"))

    def test_a_row_per_measure_a_column_per_user(self, frame):
        runs = frame()
        figure = ablation(runs, self.arms)
        assert legend(figure) == ["no", "yes"]
        online, offline = figure.axes[:2], figure.axes[2:]
        assert [panel.get_title() for panel in online] == ["perfect", "informational"]
        assert (online[0].get_ylabel(), offline[0].get_ylabel()) == ("online nDCG@10", "offline nDCG@10")
        for measure, panels in (("online", online), ("offline", offline)):
            here = runs.where(user="perfect")
            means = {
                name: here.where(algorithm=name)[f"{measure}_performance"].mean() for name in ("mgd", "dbgd", "mgd-dsp")
            }
            without, with_it = (container.lines[0] for container in panels[0].containers)
            assert without.get_ydata() == pytest.approx([means["mgd"], means["dbgd"]])
            assert with_it.get_ydata() == pytest.approx([means["mgd-dsp"]])
            assert [round(x) for x in without.get_xdata()] == [0, 1]
            assert [round(x) for x in with_it.get_xdata()] == [1]
        assert [label.get_text() for label in offline[0].get_xticklabels()] == ["none", "unit"]

    def test_unknown_recipes_are_named(self, frame):
        with pytest.raises(UnknownName, match="mgd-dps"):
            ablation(frame(), [Arm("no", "none", "mgd-dps")])


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_one_figure_is_one_data_set(frame, draw):
    with pytest.raises(InvalidValue, match="mq2007, mq2008"):
        draw(frame(datasets=("mq2007", "mq2008")))


class TestSaving:
    @pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
    def test_the_same_figure_is_the_same_text(self, frame, draw):
        first, second = (to_svg(draw(frame(n=2))) for _ in range(2))
        assert first == second
        ET.fromstring(first)

    def test_both_formats_and_nothing_else(self, frame, tmp_path):
        svg, png = save(learning_curves(frame(n=2)), tmp_path / "new" / "folder", "curves")
        assert png.read_bytes().startswith(b"\x89PNG")
        assert "<svg" in svg.read_text()
        assert sorted(path.name for path in svg.parent.iterdir()) == ["curves.png", "curves.svg"]

    def test_the_format_follows_the_name_and_unknown_ones_are_refused_before_work_is_done(self, frame, tmp_path):
        check_target(tmp_path / "curves.pdf")
        write_figure(learning_curves(frame(n=2)), tmp_path / "curves.PDF")
        assert (tmp_path / "curves.PDF").read_bytes().startswith(b"%PDF")
        with pytest.raises(InvalidValue, match=r"\.png"):
            check_target(tmp_path / "curves.docx")

    def test_a_failure_leaves_what_was_there(self, frame, tmp_path):
        (tmp_path / "curves.svg").mkdir()
        with pytest.raises(StorageFailure, match=r"curves\.svg"):
            save(learning_curves(frame(n=2)), tmp_path, "curves")
        assert [path.name for path in tmp_path.iterdir()] == ["curves.svg"]


def test_importing_experiments_does_not_import_matplotlib():
    code = (
        "import sys, duelrank.experiments, duelrank.experiments.figures, duelrank.experiments.report; "
        "print('matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
