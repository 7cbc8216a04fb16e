"""Webhooks: each event arrives once, in order, whatever the receiver does; and nobody ever waits for one."""

from __future__ import annotations

import json
import logging
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.service.guards import guard_info
from tests.waiting import FOR_EVER, until

from duelrank.core.errors import InvalidValue
from duelrank.service.webhooks import Webhooks, check_public, is_public, message, without_secrets

QUICK = (0.01, 0.01, 0.01, 0.01)


class Receiver(ThreadingHTTPServer):
    """Keeps what it was sent, and answers with the statuses that it was given, then with 204."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: list[int] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.asked = 0
        self.hold = threading.Event()
        self.hold.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["event"] for _, _, body in self.got]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.server.hold.wait(FOR_EVER)
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        if status < 300:
            self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", f"{self.server.address}/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver():
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.hold.set()
        server.shutdown()
        thread.join()


@contextmanager
def webhooks(**options):
    found = Webhooks(**{"pauses": QUICK, "limit": FOR_EVER, "private": True} | options)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def lines(caplog):
    """What the log says, as it is now."""
    caplog.set_level(logging.INFO, "duelrank.service.webhooks")
    return lambda: [record.getMessage() for record in caplog.records]


def test_delivered_once(receiver):
    with webhooks() as hooks:
        hooks.send(f"{receiver.address}/hook?to=us&a=%20b", "alarm", guard_info(state="alarm"))
        hooks.send(f"{receiver.address}/hook?to=us&a=%20b", "resume", guard_info())
        until(lambda: len(receiver.got) == 2)
    assert receiver.events == ["alarm", "resume"]
    assert receiver.asked == 2
    path, headers, body = receiver.got[0]
    assert path == "/hook?to=us&a=%20b"
    assert headers["Content-Type"] == "application/json"
    assert "Authorization" not in headers
    assert len({json.loads(each[2])["id"] for each in receiver.got}) == 2
    assert json.loads(body)["ranker"] == "shop"


def test_what_it_says():
    info = guard_info(state="alarm")
    said = json.loads(message("alarm", info))
    assert said.pop("id")
    assert said["alarm"]["reason"] == info.last_alarm.reason
    assert (said["time"], said["summary"], said["state"]) == (info.last_alarm.time, info.summary, "alarm")
    assert {"win_rate", "low", "high", "decisive", "statistic", "threshold", "rung", "rungs", "e_value"} <= set(said)
    assert len(message("alarm", info)) < 2000
    assert json.loads(message("promotion", info))["alarm"] is None, "an old alarm is no news"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_retried_after_a_failure(receiver, lines, status):
    receiver.statuses = [status, status]
    with webhooks() as hooks:
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: receiver.got)
    assert receiver.asked == 3
    assert len(receiver.got) == 1
    assert lines() == []


def test_given_up_with_one_line(receiver, lines):
    receiver.statuses = [500] * 5
    with webhooks() as hooks:
        hooks.send(f"http://us:secret@{receiver.address[7:]}/secret", "alarm", guard_info())
        until(lambda: lines())
        assert receiver.asked == 5
        hooks.send(receiver.address, "resume", guard_info())
        until(lambda: receiver.events == ["resume"])
    (line,) = lines()
    assert "the alarm of 'shop'" in line
    assert "5 attempts" in line
    assert "500" in line
    assert receiver.address in line
    assert "secret" not in line


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(receiver, lines, status):
    receiver.statuses = [status]
    with webhooks() as hooks:
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: lines())
    assert (receiver.asked, receiver.got) == (1, [])
    assert "redirects are not followed" in lines()[0]


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_final(receiver, lines, status):
    receiver.statuses = [status]
    with webhooks() as hooks:
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: lines())
    assert receiver.asked == 1
    assert str(status) in lines()[0]


def test_nobody_listens(lines):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with webhooks() as hooks:
            hooks.send(f"http://127.0.0.1:{taken.getsockname()[1]}", "alarm", guard_info())
            until(lambda: lines())
    assert "there was no answer" in lines()[0]


def test_what_answers_no_http(lines):
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def answer():
            while not stop.is_set():
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    connection.sendall(b"SSH-2.0-x\r\n\r\n")
                    while connection.recv(4096):
                        pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with webhooks() as hooks:
            hooks.send(f"http://127.0.0.1:{server.getsockname()[1]}", "alarm", guard_info())
            until(lambda: lines())
        stop.set()
        socket.create_connection(server.getsockname()).close()
        thread.join()
    assert "RemoteProtocolError" in lines()[0]


def test_a_slow_receiver_keeps_nobody_waiting_but_itself(receiver):
    """While one receiver holds its answer back, to tell returns, and so does to stop."""
    receiver.hold.clear()
    with webhooks() as hooks:
        for _ in range(20):
            hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: receiver.asked == 1)
    assert receiver.got == []


def test_an_attempt_has_a_limit_however_the_answer_drips(lines):
    """A byte now and then is within every time limit of a socket, and beyond that of the attempt."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = threading.Event()

        def drip():
            connection, _ = server.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(b"H")
                        gone.wait(0.02)
                except OSError:
                    gone.set()

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with webhooks(limit=0.3, pauses=()) as hooks:
            hooks.send(f"http://127.0.0.1:{server.getsockname()[1]}", "alarm", guard_info())
            until(lambda: lines())
            until(gone.is_set)
        thread.join()
    assert "no answer within 0.3 s" in lines()[0]


def test_one_address_that_fails_holds_up_no_other(receiver):
    with socket.socket() as taken, webhooks(pauses=(FOR_EVER,)) as hooks:
        taken.bind(("127.0.0.1", 0))
        hooks.send(f"http://127.0.0.1:{taken.getsockname()[1]}", "alarm", guard_info())
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: receiver.events == ["alarm"])


def test_events_stay_in_order_over_retries(receiver):
    receiver.statuses = [500, 500]
    with webhooks() as hooks:
        for event in ("promotion", "alarm", "resume"):
            hooks.send(receiver.address, event, guard_info())
        until(lambda: len(receiver.got) == 3)
    assert receiver.events == ["promotion", "alarm", "resume"]


def test_the_queue_is_bounded_and_the_oldest_goes(receiver, lines):
    receiver.hold.clear()
    with webhooks(max_waiting=3) as hooks:
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: receiver.asked == 1)
        for event in ("promotion", "resume", "alarm"):  # the first of four is on its way, and counts
            hooks.send(receiver.address, event, guard_info())
        assert len(lines()) == 1
        assert "a webhook was not sent: the alarm of 'shop'" in lines()[0]
        receiver.hold.set()
        until(lambda: receiver.events[1:] == ["promotion", "resume", "alarm"])


def test_stopping_sends_what_is_due_and_gives_up_the_rest(receiver, lines):
    receiver.statuses = [500]
    hooks = Webhooks(limit=FOR_EVER, pauses=(FOR_EVER,), private=True)
    hooks.send(receiver.address, "alarm", guard_info())
    until(lambda: receiver.asked == 1)
    hooks.send(f"{receiver.address}/other", "promotion", guard_info())
    hooks.close()
    assert receiver.events == ["promotion"]
    assert "the alarm of 'shop'" in lines()[0]
    hooks.send(receiver.address, "resume", guard_info())
    assert "the service stops" in lines()[1]
    hooks.close()


def test_bad_addresses_do_no_harm(receiver, lines):
    with webhooks(pauses=()) as hooks:
        for address in ("http://[::1", "http://127.0.0.1:99999", "nonsense", "http://\udcff", "http://a..b/"):
            hooks.send(address, "alarm", guard_info())
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: receiver.events == ["alarm"])
        until(lambda: len(lines()) == 5)


def test_a_password_in_the_address(receiver):
    with webhooks() as hooks:
        hooks.send(f"http://us%40here:p%3Aw@{receiver.address[7:]}", "alarm", guard_info())
        until(lambda: receiver.got)
    assert receiver.got[0][1]["Authorization"] == "Basic dXNAaGVyZTpwOnc="


def test_proxies_of_the_environment_are_not_used(receiver, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with webhooks() as hooks:
        hooks.send(receiver.address, "alarm", guard_info())
        until(lambda: receiver.events == ["alarm"])


NOT_PUBLIC = (
    "127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "240.0.0.1",
    "255.255.255.255", "224.0.0.1", "192.0.2.1", "::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fec0::1", "ff02::1",
    "2001:db8::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::1",
)  # fmt: skip


class TestPublic:
    """Where a name leads decides, at the time of sending."""

    @pytest.fixture
    def names(self, monkeypatch):
        """Where names lead, one list of addresses for each look; and what was looked up."""
        looked_up, answers = [], {}
        real = socket.getaddrinfo

        def getaddrinfo(host, port, *args, **options):
            looked_up.append(host)
            if host not in answers:
                return real(host, port, *args, **options)
            found = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return answers, looked_up

    @pytest.mark.parametrize("address", NOT_PUBLIC)
    def test_what_is_not(self, address):
        assert not is_public(address)

    @pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
    def test_what_is(self, address):
        assert is_public(address)

    @pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:7f00:1"]])
    def test_nothing_is_sent_to_a_name_that_leads_here(self, names, receiver, lines, found):
        names[0]["hook.example"] = [found]
        with webhooks(private=False) as hooks:
            hooks.send(f"http://hook.example:{receiver.server_address[1]}/x", "alarm", guard_info())
            until(lambda: lines())
        assert receiver.asked == 0
        assert f"{found[-1]} is not a public address" in lines()[0]
        assert "--allow-private-webhooks" in lines()[0]
        assert "1 attempt:" in lines()[0], "it is not tried again"

    def test_the_address_that_was_checked_is_called(self, names, receiver, monkeypatch):
        """A name may lead elsewhere when it is asked for once more, so it is asked for once."""
        names[0]["hook.example"] = [["127.0.0.1"], ["127.0.0.2"]]
        checked = []
        monkeypatch.setattr("duelrank.service.webhooks.is_public", lambda address: checked.append(address) or True)
        with webhooks(private=False) as hooks:
            hooks.send(f"http://hook.example:{receiver.server_address[1]}", "alarm", guard_info())
            until(lambda: receiver.got)
        assert checked == ["127.0.0.1"]
        assert names[1].count("hook.example") == 1
        assert receiver.got[0][1]["Host"] == f"hook.example:{receiver.server_address[1]}"

    def test_addresses_are_tried_in_turn(self, names, receiver, lines):
        names[0].update({"hook.example": [["127.0.0.2", "127.0.0.1"]], "nowhere.example": [[]]})
        with webhooks(pauses=()) as hooks:
            hooks.send(f"http://nowhere.example:{receiver.server_address[1]}", "alarm", guard_info())
            hooks.send(f"https://hook.example:{receiver.server_address[1]}", "alarm", guard_info())  # answers no TLS
            hooks.send(f"http://hook.example:{receiver.server_address[1]}", "promotion", guard_info())
            until(lambda: receiver.events == ["promotion"])
            until(lambda: len(lines()) == 2)
        assert "the name has no address" in lines()[0]

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.7:8080"])
    def test_what_is_plain_is_refused_at_once(self, host):
        with pytest.raises(InvalidValue, match="allow-private-webhooks"):
            check_public(f"http://user:pw@{host}/x")
        check_public("http://127.0.0.1.example/x")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://us:pw@hooks.example:8443/T0/secret?x=1", "https://hooks.example:8443/…"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9"),
        ("http://host/", "http://host"),
        ("http://host?secret", "http://host/…"),
    ],
)
def test_what_of_an_address_is_shown(address, shown):
    assert without_secrets(address) == shown
