"""``duelrank guard``: what it shows, in terminals of all widths, and with which status it ends."""

import functools
import io

import httpx
import msgspec
import pytest
from rich.console import Console
from tests.service.guards import guard_info

import duelrank.client
from duelrank.cli import guard as command
from duelrank.cli.guard import view
from duelrank.service.http.schema import GuardInfo, GuardRung

NOTHING = guard_info(
    decisive=0, wins=0, losses=0, win_rate=0.5, low=0.0, high=1.0, e_value=1.0, proved=False, statistic=0.0, lists=0,
    rung=GuardRung(1, 3, 0.1, 0, 0, 0.5, 0.0, 1.0, 0.49), learned_share=0.1, summary="No decisive list yet.",
)  # fmt: skip


class Service:
    """Answers with one guard after the other, the last for ever; an exception is raised, an answer is given."""

    def __init__(self):
        self.answers = [guard_info()]
        self.paths = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return (
            answer if isinstance(answer, httpx.Response) else httpx.Response(200, content=msgspec.json.encode(answer))
        )


@pytest.fixture
def service(monkeypatch):
    service = Service()
    transport = httpx.MockTransport(service)
    monkeypatch.setattr(duelrank.client, "Client", functools.partial(duelrank.client.Client, transport=transport))
    monkeypatch.setattr("duelrank.client.client.time.sleep", lambda seconds: None)
    monkeypatch.delenv("DUELRANK_URL", raising=False)
    return service


def shown(info, width=80):
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(view(info, width))
    return console.file.getvalue()


def row(text, label):
    return next(line for line in text.splitlines() if line.startswith(label))


class TestOnce:
    def test_all_is_well(self, cli, service):
        result = cli("guard", "shop", "--once")
        assert result.exit_code == 0
        assert service.paths == ["/v1/rankers/shop/guard"]
        assert result.stdout.startswith("shop  decides 50% of the lists: rung 2 of 3  version 42")

    def test_what_an_operator_should_know(self, cli, service):
        spec = msgspec.structs.replace(guard_info().guard, anonymous="ignore")
        service.answers = [guard_info(warnings=("most votes are anonymous",), ignored=7, guard=spec)]
        shown = " ".join(cli("guard", "shop", "--once").stdout.split())
        assert "warning: most votes are anonymous" in shown
        assert "7 without a user" in shown
        assert "lists without a user are ignored" in shown

    def test_an_alarm_is_a_status_for_scripts(self, cli, service):
        service.answers = [guard_info(state="alarm")]
        result = cli("guard", "shop", "--once")
        assert result.exit_code == 1
        assert "ALARM" in result.stdout
        assert "duelrank rankers resume shop" in result.stdout

    @pytest.mark.parametrize(("state", "status"), [("watching", 0), ("alarm", 1)])
    def test_json(self, cli, service, state, status):
        service.answers = [guard_info(state=state)]
        result = cli("guard", "shop", "--json")
        assert result.exit_code == status
        assert msgspec.json.decode(result.stdout, type=GuardInfo) == service.answers[0]

    def test_without_a_terminal_it_is_shown_once(self, cli, service):
        """The output of this command is not a terminal."""
        assert cli("guard", "shop").exit_code == 0
        assert len(service.paths) == 1

    def test_a_ranker_without_a_guard(self, cli, service):
        service.answers = [httpx.Response(422, json={"title": "A value is not allowed", "detail": "it has no guard"})]
        result = cli("guard", "shop", "--once")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "it has no guard" in result.stderr


class TestWatching:
    @pytest.fixture
    def watched(self, cli, service, monkeypatch):
        """Watch until the answers are used up, as in a terminal, and return the result."""

        def watch(*answers):
            service.answers = [*answers, KeyboardInterrupt()]
            terminal = functools.partial(Console, highlight=False, force_terminal=True, width=100)
            monkeypatch.setattr(command, "out", terminal)
            return cli("guard", "shop", "--every", 0.1)

        monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
        return watch

    def test_until_ctrl_c(self, watched, service):
        result = watched(guard_info(model_version=42), guard_info(model_version=43))
        assert result.exit_code == 0
        assert "version 42" in result.stdout
        assert "version 43" in result.stdout
        assert len(service.paths) == 3

    def test_what_happens_leaves_a_line(self, watched):
        well, alarm = guard_info(), guard_info(state="alarm")
        after = msgspec.structs.replace(well, alarms=1, last_alarm=alarm.last_alarm, promotions=2)
        said = watched(well, alarm, after).stdout
        assert f"alarm: {alarm.last_alarm.reason}"[:60] in said
        assert "resumed: the guard starts again" in said
        assert "promoted to rung 2 of 3" in said

    def test_a_service_that_is_away_is_waited_for(self, watched):
        away = httpx.ConnectError("refused")
        result = watched(
            guard_info(), away, away, httpx.Response(503), httpx.Response(503), guard_info(model_version=43)
        )
        assert result.exit_code == 0
        assert "no response since" in result.stdout
        assert "version 43" in result.stdout
        assert "no response since" not in result.stdout.rpartition("version 43")[2]

    def test_a_ranker_that_was_deleted_is_the_end(self, watched):
        result = watched(guard_info(), httpx.Response(404, json={"title": "gone", "detail": "no such ranker"}))
        assert result.exit_code == 2
        assert "no such ranker" in result.stderr


class TestView:
    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    @pytest.mark.parametrize("info", [guard_info(), guard_info(state="alarm"), NOTHING])
    def test_it_fits(self, info, width):
        text = shown(info, width)
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        for label in ("win rate", "gain", "harm", "ladder", "lists", "alarms", "guard"):
            assert row(text, label)

    def test_the_band_around_one_half(self):
        line = row(shown(guard_info(win_rate=0.54, low=0.51, high=0.57)), "win rate")
        axis = line[line.index("40% ") + 4 : line.index(" 60%")]
        assert axis[len(axis) // 2] == "┼"
        assert axis.count("●") == 1
        assert axis.index("┼") < axis.index("━") < axis.index("●") < axis.rindex("━"), "all of it is above one half"
        below = row(shown(guard_info(win_rate=0.46, low=0.43, high=0.49)), "win rate")
        assert below.index("●") < below.rindex("━") < below.index("┼")

    @pytest.mark.parametrize(
        ("low", "high", "ends"), [(0.47, 0.52, ("45%", "55%")), (0.31, 0.5, ("30%", "70%")), (0.0, 1.0, ("0%", "100%"))]
    )
    def test_the_axis_holds_the_band(self, low, high, ends):
        line = row(shown(guard_info(low=low, high=high, win_rate=(low + high) / 2)), "win rate")
        assert [line.split()[place] for place in (3, 5)] == list(ends)

    @pytest.mark.parametrize(
        ("statistic", "word"),
        [(0.0, "quiet"), (900.0, "quiet"), (2e3, "rising"), (9e5, "rising"), (1e6, "alarm"), (1e100, "alarm")],
    )
    def test_evidence_of_harm_is_on_a_logarithmic_scale(self, statistic, word):
        line = row(shown(guard_info(statistic=statistic)), "harm")
        assert word in line
        full, free = line.count("━"), line.count("─")
        share = min(1.0, (statistic > 0) * len(f"{statistic:.0f}") / 7)
        assert full / (full + free) == pytest.approx(share, abs=0.16)

    def test_the_ladder(self):
        assert "10% → [50%] → 100%  50% of the other lists are ranked" in shown(guard_info())
        assert "now 47.2%, is above 49%" in shown(guard_info())
        assert "all lists have your own order" in shown(guard_info(state="alarm"))

    def test_the_first_line_says_the_phase(self):
        imitating = {"phase": "imitating", "imitated": 1200, "imitate": 3000, "learned_share": 0.0}
        text = shown(guard_info(**imitating))
        assert text.startswith("shop  imitates your order: 1,200 of 3,000 lists  version 42")
        assert "begins when your order is imitated" in row(text, "ladder")
        assert "next rung" not in text
        full = shown(guard_info(phase="full", learned_share=1.0, rung=GuardRung(3, 3, 1.0, 0, 0, 0.5, 0.0, 1.0, 0.49)))
        assert full.startswith("shop  decides 100% of the lists: rung 3 of 3  version 42")
        assert "next rung" not in full
        assert shown(guard_info(state="alarm")).startswith("shop   ALARM   all lists have your own order")

    def test_a_past_alarm_has_its_reason(self):
        alarm = guard_info(state="alarm").last_alarm
        text = shown(guard_info(alarms=3, last_alarm=alarm), 200)
        assert "3, the last on" in row(text, "alarms")
        assert alarm.reason in " ".join(text.split())
