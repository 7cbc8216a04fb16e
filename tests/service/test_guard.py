"""A guarded ranker in the service: what it shows and counts, when it steps back and goes up, and that none of it is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import msgspec
import numpy as np
import pytest

from duelrank.core.errors import InvalidValue
from duelrank.evidence.guard import BASELINE, LEARNED, Alarm, Guard
from duelrank.service import Observer, Service, views
from duelrank.service.definition import BASELINE as OWN_ORDER
from duelrank.service.definition import GUARD, Definition, RankerSpec, unpack_teams
from duelrank.service.http.schema import Change, GuardSpec, Start
from duelrank.service.leader import Term
from duelrank.service.log import CONTROL, Control, Created, StoredImpression, pack, unpack
from duelrank.service.machine import Status, Tally
from duelrank.storage import NewEvent, open_storage

# Against the client's order, in which documents come by their numbers.
AGAINST = Start(weights={"bm25": 1.0})
ALWAYS = GuardSpec(share=1.0, false_alarm_every=100.0, promote=(1.0,))


def ids(answer):
    return [each.id for each in answer.ranking]


def stored(storage, number):
    return unpack(storage.log.find("shop", "ranked", [f"i{number}"])[f"i{number}"].body, StoredImpression)


def controls(storage):
    events = storage.log.read(limit=1_000_000)
    return [unpack(event.body, Control) for event in events if event.kind == CONTROL]


async def vote(service, kit, number, team, **event):
    """Show a list, and click all that a team has in it; where it has nothing, both have nothing."""
    shown = ids(await service.rank("shop", kit.request(number)))
    body = kit.recent(service, f"i{number}").body
    owners = unpack_teams(body.teams) if body.list_kind == GUARD else np.full(len(shown), LEARNED)
    clicks = [id for id, owner in zip(shown, owners, strict=True) if owner == team]
    counts = await service.feedback("shop", [kit.event(number, clicks, **event)])
    assert counts.accepted == 1
    return body.list_kind


async def votes(service, kit, numbers, team, **event):
    for number in numbers:
        await vote(service, kit, number, team, **event)


async def settled(service, kit, alarms=0):
    """Wait until so many alarms were raised, and the version that knows it is served."""
    await kit.until(lambda: service.guard("shop").alarms == alarms, lambda: service.guard("shop"))
    await kit.learned(service, 0)


def test_guard_lists_are_team_drafts_of_the_own_order_and_of_the_best_list(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(mode="frozen", start=AGAINST, guard=GuardSpec(share=0.5, promote=(0.5, 1.0))))
            ways = {}
            for number in range(200):
                shown = ids(await service.rank("shop", kit.request(number)))
                assert ids(await service.rank("shop", kit.request(number))) == shown, "the next page, or a retry"
                body = stored(storage, number)
                ways[body.list_kind] = ways.get(body.list_kind, 0) + 1
                best = [f"d{i}" for i in np.argsort(-kit.table(number)[:, 0])]
                if body.list_kind == GUARD:
                    teams = unpack_teams(body.teams)
                    for team, order in ((BASELINE, [f"d{i}" for i in range(8)]), (LEARNED, best)):
                        own = [id for id, owner in zip(shown, teams, strict=True) if owner == team]
                        assert own == sorted(own, key=order.index)
                    assert abs(np.count_nonzero(teams == 0) - np.count_nonzero(teams == 1)) <= 1
                elif body.list_kind == OWN_ORDER:
                    assert shown == [f"d{i}" for i in range(5)]
                else:
                    assert shown == best[:5]
            assert 70 < ways[GUARD] < 130
            assert 30 < ways[OWN_ORDER] < 70
        kit.verified(storage)
        async with kit.running(storage) as service:  # which remembers nothing
            for number in range(0, 200, 20):
                assert ids(await service.rank("shop", kit.request(number))) == stored(storage, number).shown

    asyncio.run(main())


def test_who_chooses_ids_by_the_public_seed_predicts_no_list(any_url, kit):
    """A client that knows all but the salt: it would choose ids of guard lists, and know what exploration shows."""
    spec = kit.spec(start=AGAINST, guard=GuardSpec(share=0.1, promote=(1.0,)))
    guess, predicted = Definition(spec, 0.0, np.array([1.0, 0.0, 0.0, 0.0]).tobytes()), {}
    for number in itertools.count():
        way = guess.list_kind(f"i{number}", frozen=False)
        order, _ = guess.order(way, guess.start, f"i{number}", kit.table(number), 5)
        predicted[number] = (way, [f"d{place}" for place in order])
        if sum(way == GUARD for way, _ in predicted.values()) == 50:
            break

    async def main(storage, salt):
        async with kit.running(storage, salt=salt) as service:
            await service.create(spec)
            shown = {number: ids(await service.rank("shop", kit.request(number))) for number in predicted}
            await service.feedback("shop", [kit.event(number, shown[number][1:2]) for number in predicted])
            await kit.learned(service, len(predicted))
        kit.verified(storage)  # which makes all lists again
        chosen = [number for number, (way, _) in predicted.items() if way == GUARD]
        hit = sum(stored(storage, number).list_kind == GUARD for number in chosen)
        return hit, sum(order == shown[number] for number, (_, order) in predicted.items()) / len(predicted)

    with open_storage(any_url) as storage:
        hit, same = asyncio.run(main(storage, kit.fast.salt))
        assert hit < 12, "about 5 of 50, as many as of any other ids"
        assert same < 0.2
    with open_storage("sqlite://") as storage:
        assert asyncio.run(main(storage, b"")) == (50, 1.0), "a ranker of a store without a salt does what it did"


def test_each_ranker_has_a_secret_salt_of_its_own(storage, kit):
    async def main():
        async with kit.running(storage, salt=None) as service:
            for name in ("one", "two"):
                await service.create(kit.spec(name))
                assert "salt" not in msgspec.json.encode(service.ranker(name)).decode()

    asyncio.run(main())
    found = storage.log.find("_rankers", "created", ["one", "two"]).values()
    salts = {unpack(event.body, Created).salt for event in found}
    assert {len(salt) for salt in salts} == {16}
    assert len(salts) == 2


def test_without_a_guard_lists_are_what_they_were(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await service.create(kit.spec("guarded", guard=GuardSpec(share=1e-9, promote=(1.0,)), imitate=0))
            for number in range(20):
                one, two = [await service.rank(name, kit.request(number)) for name in ("shop", "guarded")]
                assert ids(one) == ids(two)
            with pytest.raises(InvalidValue, match="no guard"):
                service.guard("shop")

    asyncio.run(main())


def test_outcomes_are_counted_and_nothing_is_learned_from_guard_lists(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(start=AGAINST, guard=GuardSpec(share=1.0)))
            await votes(service, kit, range(5), LEARNED)
            await votes(service, kit, range(5, 8), BASELINE)
            await service.rank("shop", kit.request(8))
            await service.feedback("shop", [kit.event(8)])
            shown = ids(await service.rank("shop", kit.request(9)))
            teams = unpack_teams(stored(storage, 9).teams).tolist()
            tie = [shown[teams.index(BASELINE)], shown[teams.index(LEARNED)]]
            await service.feedback("shop", [kit.event(9, tie)])
            await kit.learned(service, 10)
            info, ranker = service.guard("shop"), service.ranker("shop")
            assert (info.lists, info.decisive, info.wins, info.losses) == (10, 8, 5, 3)
            assert (info.ties, info.no_click, info.repeated) == (1, 1, 0)
            assert info.win_rate == 5 / 8
            assert info.low < 5 / 8 < info.high
            assert (info.state, info.alarms, info.last_alarm) == ("watching", 0, None)
            assert "not known yet" in info.summary
            assert (ranker.learned, ranker.skipped, ranker.failed) == (0, 10, 0)
            assert ranker.skipped_by_reason == {"guard": 10}
            return info

    info = asyncio.run(main())
    kit.verified(storage)

    async def again():
        async with kit.running(storage) as service:
            return service.guard("shop")

    assert asyncio.run(again()) == info


def test_an_alarm_serves_the_own_order_until_somebody_resumes(storage, kit, caplog):
    events = []

    class Watching(Observer):
        def guard_event(self, name, event, info):
            events.append((name, event, info))

    async def main():
        async with kit.running(storage) as service:
            service.observer = Watching()
            await service.create(kit.spec(start=AGAINST, guard=GuardSpec(share=0.5, false_alarm_every=100.0)))
            await kit.learned(service, number := 0)
            machine = service._rankers["shop"].machine
            waiting = 2000
            while (explored := await service.rank("shop", kit.request(waiting))).kind != "explored":
                await service.feedback("shop", [kit.event(waiting)])  # later guard lists would wait for it
                waiting += 1
            while not machine.guard.raised and machine.guard.due is None:  # no more votes once the alarm is due
                await vote(service, kit, number, BASELINE)
                number += 1
                assert number < 500
                await kit.learned(service, number)
            await settled(service, kit, 1)
            info = service.guard("shop")
            assert info.alarms == 1
            assert info.last_alarm.did == "baseline"
            assert info.last_alarm.statistic >= 100.0 == info.threshold
            assert info.last_alarm.wins == 0
            assert info.learned_share == 0.0
            assert "your own order" in info.last_alarm.reason
            assert "alarm" in service.ranker("shop").warnings[0]
            before = service.ranker("shop").learned
            for each in range(1000, 1040):
                way = await vote(service, kit, each, LEARNED)
                assert way in (GUARD, OWN_ORDER)
            await kit.learned(service, number + 40)
            info = service.guard("shop")
            assert service.ranker("shop").learned == before, "nothing is learned"
            assert (info.wins > 5, info.losses) == (True, 0), "guard lists go on, and show that it would do better now"
            assert info.state == "alarm", "only a person ends it"
            await service.feedback("shop", [kit.event(waiting, explored.ids[:1])])
            await kit.until(lambda: service.ranker("shop").skipped_by_reason.get("alarm") == 1)
            await service.control("shop", "resume")
            info = service.guard("shop")
            assert (info.state, info.statistic, info.decisive, info.alarms) == ("watching", 0.0, 0, 1)
            assert info.learned_share == 0.5

    with caplog.at_level(logging.INFO, "duelrank.service"):
        asyncio.run(main())
    assert [event for _, event, _ in events] == ["alarm", "resume"]
    assert any("Alarm" in record.message and record.levelno == logging.ERROR for record in caplog.records)
    told = [each for each in controls(storage) if each.action == "alarm"]
    assert [each.evidence.statistic for each in told] == [events[0][2].last_alarm.statistic]
    kit.verified(storage)


@pytest.mark.parametrize("own", [True, False])
def test_an_alarm_is_sent_to_the_webhook_once(storage, kit, own):
    told = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    async def main(address):
        settings = {"private_webhooks": True} | ({} if own else {"webhook": address})
        async with kit.running(storage, **settings) as service:
            guard = GuardSpec(1.0, 100.0, promote=(1.0,), webhook=address if own else None)
            await service.create(kit.spec(start=AGAINST, guard=guard))
            await votes(service, kit, range(30), BASELINE)
            await settled(service, kit, 1)
            await kit.until(lambda: told)
            await service.control("shop", "resume")
        async with kit.running(storage, **settings) as service:  # what is restored is not told again
            await kit.learned(service, 30)

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(main(f"http://127.0.0.1:{server.server_port}/hook"))
        server.shutdown()
    assert [(each["ranker"], each["event"]) for each in told] == [("shop", "alarm"), ("shop", "resume")]
    assert told[0]["alarm"]["did"] == "baseline"


def test_a_guard_that_only_reports_continues_and_reports_once(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            guard = GuardSpec(share=1.0, false_alarm_every=100.0, on_alarm="tell", promote=(1.0,))
            await service.create(kit.spec(start=AGAINST, guard=guard))
            await votes(service, kit, range(40), BASELINE)
            await kit.learned(service, 40)
            await settled(service, kit, 1)
            info = service.guard("shop")
            assert (info.state, info.alarms, info.learned_share) == ("alarm", 1, 1.0)
            assert info.last_alarm.did == "tell"
            assert info.losses == 40

    asyncio.run(main())
    kit.verified(storage)
    assert sum(each.action == "alarm" for each in controls(storage)) == 1


def test_it_rolls_back_to_the_version_that_had_proved_gain_else_to_the_own_order(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            guard = GuardSpec(share=0.5, false_alarm_every=100.0, on_alarm="rollback", promote=(1.0,))
            await service.create(kit.spec(start=AGAINST, guard=guard))
            await kit.learned(service, 0)
            number = 0
            while service._rankers["shop"].machine.watch.proven is None:
                await vote(service, kit, number, LEARNED)
                number += 1
                await kit.learned(service, number)
            proven, state = service._rankers["shop"].machine.watch.proven
            while service.guard("shop").alarms == 0:
                await vote(service, kit, number, BASELINE)
                number += 1
                await kit.learned(service, number)
            await settled(service, kit, 1)
            info = service.guard("shop")
            assert (info.last_alarm.did, info.last_alarm.to_version, info.state) == ("rollback", proven, "watching")
            assert np.array_equal(service.model("shop").weights, state.weights)
            assert (info.statistic, info.learned_share) == (0.0, 1.0)
            learned = service.ranker("shop").learned
            while service.guard("shop").alarms == 1:  # nothing was proved since
                await vote(service, kit, number, BASELINE)
                number += 1
                await kit.learned(service, number)
            assert service.ranker("shop").learned > learned, "it learned on"
            info = service.guard("shop")
            assert (info.last_alarm.did, info.state, info.learned_share) == ("baseline", "alarm", 0.0)

    asyncio.run(main())
    kit.verified(storage)


def test_it_goes_up_its_ladder(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(start=AGAINST, guard=GuardSpec(share=0.9, promote=(0.2, 0.6, 1.0))))
            number, seen = 0, []
            while len(seen) < 3:
                info = service.guard("shop")
                if info.learned_share not in seen:
                    seen.append(info.learned_share)
                    assert info.rung.number == len(seen)
                await vote(service, kit, number, LEARNED)
                number += 1
                await kit.learned(service, number)
            assert seen == [0.2, 0.6, 1.0]
            assert service.guard("shop").promotions == 2
            assert service.guard("shop").proved
            assert "proved to be better" in service.guard("shop").summary

    asyncio.run(main())
    kit.verified(storage)
    assert [each.action for each in controls(storage)] == ["promote", "promote"]


def counting(wins, losses, **settings):
    """Return a guard after so many wins, then losses; an alarm that is due is raised."""
    guard = Guard.begin(msgspec.structs.replace(ALWAYS, false_alarm_every=1e6, **settings))
    for won in [True] * wins + [False] * losses:
        guard = guard.count("win" if won else "loss")
        guard = guard.alarmed(1.0, 7) if guard.due == "alarm" else guard
    return told(guard)


def told(guard):
    return views.guard_info(RankerSpec("shop", "pdgd", ("bm25",)), 7, Status(0, Tally(), 0, 0, guard))


class TestWords:
    def test_a_proof_is_told_with_what_users_prefer_lately(self):
        assert counting(40, 10).summary.endswith("It is proved to be better; it won 80% of the last 50 comparisons.")
        guard = Guard.begin(msgspec.structs.replace(ALWAYS, on_alarm="tell", false_alarm_every=1e15))
        for number in range(500):
            guard = guard.count("win" if number < 400 or number % 5 == 0 else "loss")
        info = told(guard)
        assert info.proved
        assert info.lately < 0.5
        assert "It was proved to be better over the whole period; but lately users preferred your own order" in (
            info.summary
        )
        lost = round(100 * (1 - info.lately))
        assert info.summary.endswith(f"in about {lost} of the last 100 comparisons.")

    @pytest.mark.parametrize(
        ("settings", "words"),
        [({}, "your own order is shown, and learning has stopped"), ({"on_alarm": "tell"}, "nothing was changed")],
    )
    def test_an_alarm_is_told_in_the_words_of_users_and_the_statistic_comes_last(self, settings, words):
        """That the ranker had won nearly all before does not hide that it has lost all since."""
        alarm = counting(170, 60, **settings).last_alarm
        assert (
            alarm.happened == f"users preferred your own order in {alarm.losses} of the last {alarm.losses} comparisons"
        )
        assert alarm.lately > 0.5
        assert alarm.consequence.startswith(words)
        assert alarm.reason.startswith(
            f"{alarm.happened}; {alarm.consequence} (170 won and {alarm.losses} lost in all, "
        )

    def test_an_alarm_of_an_earlier_version_has_its_counts(self):
        alarm = Alarm(1.0, 7, 2e6, wins=120, losses=310, lately=0.3, did="rollback", to_version=4)
        said = views.alarm_sentence(alarm, 1e6)
        assert said.startswith("users preferred your own order in 310 of the last 430 comparisons; version 4, ")


def test_the_overview_has_alarms_first(storage, kit):
    clock = kit.clock()

    async def main():
        async with kit.running(storage, clock=clock) as service:
            for name in ("a", "shop", "z"):
                await service.create(kit.spec(name=name, start=AGAINST, guard=None if name == "a" else ALWAYS))
            clock.advance(60.0)
            await votes(service, kit, range(30), BASELINE)
            await settled(service, kit, alarms=1)
            clock.advance(60.0)
            found = service.overview()
            assert [(each.ranker.name, each.guard and each.guard.state) for each in found] == [
                ("shop", "alarm"),
                ("a", None),
                ("z", "watching"),
            ]
            assert [each.lists_per_minute for each in found] == [15.0, 0.0, 0.0]
            assert service.alarms() == ["shop"]
            clock.advance(600.0)
            assert service.overview()[0].lists_per_minute == 0.0

    asyncio.run(main())


def test_a_user_has_one_vote_a_day(storage, kit):
    clock = kit.clock()

    async def main():
        async with kit.running(storage, clock=clock) as service:
            await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
            await votes(service, kit, range(3), LEARNED, user_id="ann@example.org")
            await votes(service, kit, range(3, 5), LEARNED, user_id="bob")
            await votes(service, kit, range(5, 7), LEARNED)
            await kit.learned(service, 7)
            assert (service.guard("shop").wins, service.guard("shop").repeated) == (4, 3)
            clock.advance(86_400.0)
            await vote(service, kit, 10, LEARNED, user_id="bob")
            await kit.learned(service, 8)
            assert (service.guard("shop").wins, service.guard("shop").repeated) == (5, 3)
        async with kit.running(storage, clock=clock) as service:
            await vote(service, kit, 11, LEARNED, user_id="bob")
            await kit.learned(service, 9)
            assert service.guard("shop").repeated == 4, "remembered over a restart"

    asyncio.run(main())
    kit.verified(storage)
    bodies = [event.body for event in storage.log.read(limit=10_000)]
    assert not any(b"ann@" in body or b"bob" in body for body in bodies), "nobody's id is kept"
    assert sum(event.kind == "salt" for event in storage.log.read(limit=10_000)) == 1


def test_who_has_no_user_id_is_counted_and_warned_of_or_ignored(storage, kit, caplog):
    caplog.set_level(logging.WARNING, "duelrank.service")

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
            await votes(service, kit, range(19), LEARNED, user_id="")
            await kit.learned(service, 19)
            assert (service.guard("shop").wins, service.guard("shop").anonymous) == (19, 1.0), "an empty id is no user"
            assert service.guard("shop").warnings == ()
            await vote(service, kit, 19, LEARNED)
            await kit.learned(service, 20)
            (warning,) = service.guard("shop").warnings
            assert "100% of the latest decisive lists have no user_id" in warning
            assert warning in service.ranker("shop").warnings
            await kit.until(lambda: any(warning in record.getMessage() for record in caplog.records))
            ignoring = msgspec.structs.replace(ALWAYS, anonymous="ignore")
            await service.change("shop", Change(guard=ignoring))
            await votes(service, kit, range(20, 30), LEARNED)
            await votes(service, kit, range(30, 33), LEARNED, user_id="ann")
            await kit.learned(service, 33)
            info = service.guard("shop")
            assert (info.lists, info.wins, info.repeated, info.ignored) == (33, 21, 2, 10)
            assert info.anonymous == pytest.approx(30 / 31)
            assert "ignores" in info.warnings[0]
            return info

    info = asyncio.run(main())
    kit.verified(storage)

    async def again():
        async with kit.running(storage) as service:
            assert service.guard("shop") == info

    asyncio.run(again())


@pytest.fixture
def lost_enough(storage, kit, monkeypatch):
    """A service, as long as one needs it, in which an alarm is due and nobody notes it."""

    @asynccontextmanager
    async def make():
        with monkeypatch.context() as patched:
            patched.setattr(Term, "_act_on_guards", lambda learner: False)
            async with kit.running(storage) as service:
                await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
                await votes(service, kit, range(30), BASELINE)
                await kit.learned(service, 30)
                yield service

    return make


def test_an_alarm_that_a_killed_process_had_not_noted_is_noted_by_the_next_one(storage, kit, lost_enough):
    async def until_due():
        async with lost_enough() as service:
            assert service.guard("shop").alarms == 0
        assert not controls(storage)

    async def next_one():
        async with kit.running(storage) as service:
            await kit.until(lambda: service.guard("shop").alarms == 1)
            await kit.until(lambda: service._rankers["shop"].version.learned_share == 0.0)
            return service.guard("shop").last_alarm

    asyncio.run(until_due())
    alarm = asyncio.run(next_one())
    assert alarm.losses < 30, "its evidence is that of the moment it became due"
    kit.verified(storage)
    assert [each.action for each in controls(storage)] == ["start", "alarm"]


def test_who_resumes_first_wins(storage, kit, lost_enough):
    """An operator resumes after an alarm became due and before it was noted: there is no alarm then."""

    async def main():
        async with lost_enough() as service:
            late = service._rankers["shop"].machine.watch.due()
            await service.control("shop", "resume")
            await service._append([NewEvent("shop", CONTROL, late[0], 0.0, pack(late[1]))])
            await kit.learned(service, 30)
            assert (service.guard("shop").alarms, service.guard("shop").statistic) == (0, 0.0)

    asyncio.run(main())
    kit.verified(storage)


def test_lists_from_before_a_resume_do_not_count(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
            await votes(service, kit, range(30), BASELINE)
            for number in range(100, 105):
                await service.rank("shop", kit.request(number))
            await vote(service, kit, 103, BASELINE)
            await kit.learned(service, 31)
            await settled(service, kit, 1)
            assert service.guard("shop").waiting == 1
            await service.control("shop", "resume")
            assert service.guard("shop").waiting == 0
            await votes(service, kit, (100, 101, 102, 104), BASELINE)
            await kit.learned(service, 35)
            assert service.guard("shop").losses == 0
            await votes(service, kit, range(200, 203), BASELINE)
            await kit.learned(service, 38)
            assert service.guard("shop").losses == 3

    asyncio.run(main())
    kit.verified(storage)


def test_lists_are_counted_in_the_order_of_showing_and_wait_for_those_that_are_open(storage, kit):
    clock, gauges = kit.clock(), []

    class Watching(Observer):
        def guard(self, name, info):
            gauges.append(0 if info is None else info.waiting)

    async def main():
        async with kit.running(storage, clock=clock) as service:
            service.observer = Watching()
            await service.create(kit.spec(start=AGAINST, guard=ALWAYS, close_after=600.0))
            await kit.learned(service, 0)
            for number in range(3):
                await service.rank("shop", kit.request(number))
            await vote(service, kit, 2, LEARNED, user_id="ann")
            clock.advance(5.0)
            await vote(service, kit, 1, BASELINE, user_id="ann")
            await kit.learned(service, 2)
            info = service.guard("shop")
            assert (info.lists, info.waiting) == (0, 2)
            assert "2 more are closed and wait for earlier ones" in info.summary
            clock.advance(5.0)  # the observer is called at intervals
            await kit.until(lambda: 2 in gauges)
            assert service.history("shop", "minute").guard.losses == [0]
        async with kit.running(storage, clock=clock) as service:  # what waits is kept
            assert service.guard("shop").waiting == 2
            clock.advance(600.0)  # nobody closes the first one
            await kit.until(lambda: service.guard("shop").waiting == 0)
            info = service.guard("shop")
            assert (info.lists, info.no_click, info.wins, info.losses, info.repeated) == (3, 1, 0, 1, 1)
            assert "closed and wait" not in info.summary
            assert service.history("shop", "minute").guard.losses[-1] == 1, "when it was counted"

    asyncio.run(main())
    kit.verified(storage)


def test_lists_that_wait_are_limited(storage, kit):
    """The oldest open lists are closed if there are too many, with the lists that wait for them."""

    async def main():
        async with kit.running(storage, max_open=10) as service:
            await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
            await service.rank("shop", kit.request(100))
            await votes(service, kit, range(9), LEARNED)
            await kit.learned(service, 9)
            assert (service.guard("shop").waiting, service.guard("shop").lists) == (9, 0)
            await votes(service, kit, range(9, 12), LEARNED)
            await kit.until(lambda: service.guard("shop").lists == 13)
            assert (service.guard("shop").wins, service.guard("shop").no_click) == (12, 1)

    asyncio.run(main())
    kit.verified(storage)


def test_one_without_weights_ties_with_the_own_order(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(guard=GuardSpec(share=1.0), imitate=0))
            for number in range(20):
                assert ids(await service.rank("shop", kit.request(number))) == [f"d{i}" for i in range(5)]
                await service.feedback("shop", [kit.event(number, ["d1"])])
            await kit.learned(service, 20)
            assert (service.guard("shop").ties, service.guard("shop").decisive) == (20, 0)
            assert "starts from zero weights" in service.ranker("shop").warnings[0]

    asyncio.run(main())


def test_what_an_operator_goes_back_to_is_watched_anew(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            guard = GuardSpec(share=0.5, false_alarm_every=100.0, on_alarm="rollback", promote=(1.0,))
            await service.create(kit.spec(start=AGAINST, guard=guard))
            await votes(service, kit, range(40), LEARNED)
            await votes(service, kit, range(40, 55), BASELINE)
            await kit.learned(service, 55)
            assert service._rankers["shop"].machine.watch.proven is not None
            assert service.guard("shop").statistic > 0.0
            await service.control("shop", "rollback", 1)
            assert service._rankers["shop"].machine.watch.proven is None
            assert (service.guard("shop").statistic, service.guard("shop").decisive) == (0.0, 0)

    asyncio.run(main())
    kit.verified(storage)


def test_an_alarm_that_was_not_announced_is_announced_by_the_next_process(storage, kit, monkeypatch):
    told = []

    class Watching(Observer):
        def guard_event(self, name, event, info):
            told.append(event)

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
            with monkeypatch.context() as patched:
                patched.setattr(Term, "_announce", lambda *_: None)  # killed before it could
                patched.setattr(Term, "_checkpoint", lambda *_, **__: None)
                await votes(service, kit, range(30), BASELINE)
                await settled(service, kit, 1)
                await service.stop()
        for expected in (["alarm"], ["alarm"]):  # once
            service = Service(storage, kit.fast)
            service.observer = Watching()
            await service.start()
            await service.wait_ready()
            await kit.learned(service, 30)
            await service.stop()
            assert told == expected

    asyncio.run(main())


class TestChanges:
    def test_a_reported_alarm_steps_back_after_a_change_of_on_alarm(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                guard = GuardSpec(share=1.0, false_alarm_every=100.0, on_alarm="tell", promote=(1.0,))
                await service.create(kit.spec(start=AGAINST, guard=guard))
                await votes(service, kit, range(30), BASELINE)
                await settled(service, kit, 1)
                await service.change("shop", Change(guard=ALWAYS))
                await votes(service, kit, range(30, 32), BASELINE)
                await settled(service, kit, 2)
                assert service.guard("shop").learned_share == 0.0

        asyncio.run(main())
        kit.verified(storage)

    def test_a_guard_comes_and_goes(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(start=AGAINST))
                info = await service.change("shop", Change(guard=ALWAYS))
                assert info.guard == ALWAYS
                await votes(service, kit, range(5), LEARNED)
                await kit.learned(service, 5)
                assert service.guard("shop").wins == 5
                await service.change(
                    "shop", Change(guard=GuardSpec(share=0.5, false_alarm_every=100.0, promote=(1.0,)))
                )
                assert service.guard("shop").wins == 5, "the same promise"
                await service.change("shop", Change(length=4))
                assert service.guard("shop").wins == 5
                await service.change("shop", Change(guard=GuardSpec(margin=0.1)))
                assert service.guard("shop").wins == 0, "another promise"
                info = await service.change("shop", Change(guard=None))
                assert info.guard is None
                with pytest.raises(InvalidValue, match="no guard"):
                    service.guard("shop")

        asyncio.run(main())
        kit.verified(storage)

    def test_an_alarm_stands_whatever_else_changes(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(start=AGAINST, guard=ALWAYS))
                await votes(service, kit, range(30), BASELINE)
                await settled(service, kit, 1)
                for change in (Change(guard=GuardSpec(margin=0.1)), Change(add_features=("new",)), Change(length=3)):
                    await service.change("shop", change)
                    assert service.guard("shop").state == "alarm"
                    assert service.guard("shop").learned_share == 0.0

        asyncio.run(main())
        kit.verified(storage)

    @pytest.mark.parametrize(
        ("guard", "said"),
        [
            (GuardSpec(share=0.0), "share"),
            (GuardSpec(share=1.5), "share"),
            (GuardSpec(false_alarm_every=0.0), "false_alarm_every"),
            (GuardSpec(margin=-0.1), "margin"),
            (GuardSpec(margin=0.5), "margin"),
            (GuardSpec(promote=()), "promote"),
            (GuardSpec(promote=(0.5, 0.1)), "promote"),
            (GuardSpec(promote=(0.0, 1.0)), "promote"),
            (GuardSpec(webhook="ftp://example.org"), "webhook"),
            (GuardSpec(webhook="http://"), "webhook"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, storage, kit, guard, said):
        async def main():
            async with kit.running(storage) as service:
                with pytest.raises(InvalidValue, match=f"guard: .*{said}"):
                    await service.create(kit.spec(guard=guard))
                await service.create(kit.spec())
                with pytest.raises(InvalidValue, match=f"guard: .*{said}"):
                    await service.change("shop", Change(guard=guard))

        asyncio.run(main())

    def test_a_shadow_has_nothing_to_guard(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                with pytest.raises(InvalidValue, match="shadow"):
                    await service.create(kit.spec(mode="shadow", guard=GuardSpec()))
                await service.create(kit.spec(guard=GuardSpec()))
                with pytest.raises(InvalidValue, match="shadow"):
                    await service.change("shop", Change(mode="shadow"))

        asyncio.run(main())


def test_a_follower_reports_and_serves_the_same(postgres_url, kit):
    async def main():
        with open_storage(postgres_url) as one, open_storage(postgres_url) as two:
            async with kit.running(one) as leader, kit.running(two) as follower:
                assert (leader.leads, follower.leads) == (True, False)
                await leader.create(kit.spec(start=AGAINST, guard=GuardSpec(share=0.5, false_alarm_every=100.0)))
                await kit.until(lambda: bool(follower.rankers()))
                number = 0
                while leader.guard("shop").alarms == 0:  # clicked where it is not known who leads
                    await vote((leader, follower)[number % 2], kit, number, BASELINE)
                    number += 1
                    await kit.learned(leader, number)
                await kit.until(
                    lambda: follower.guard("shop") == leader.guard("shop"),
                    lambda: (follower.guard("shop"), leader.guard("shop")),
                )
                await kit.until(lambda: follower._rankers["shop"].version.learned_share == 0.0)
                for each in range(1000, 1020):
                    assert await vote(follower, kit, each, LEARNED) in (GUARD, OWN_ORDER)
                while (await leader.rank("shop", kit.request(each := each + 1))).kind != "guard":
                    pass
                while await vote(follower, kit, each := each + 1, LEARNED) != GUARD:
                    pass
                await kit.until(lambda: follower.guard("shop").waiting == 1)
            kit.verified(one)

    asyncio.run(main())


def test_two_leaders_at_once_raise_one_alarm(storage, kit, monkeypatch):
    from duelrank.storage.sqlite import _MemoryLease

    monkeypatch.setattr(storage.leases, "acquire", lambda name: _MemoryLease())

    async def main():
        async with kit.running(storage) as first, kit.running(storage) as second:
            await first.create(kit.spec(start=AGAINST, guard=ALWAYS))
            await kit.until(lambda: bool(second.rankers()))
            await votes(first, kit, range(30), BASELINE)
            await kit.until(lambda: all(each.guard("shop").alarms == 1 for each in (first, second)))
            machines = [service._rankers["shop"].machine for service in (first, second)]
            await kit.until(lambda: machines[0].number == machines[1].number == storage.log.last_number())
            assert machines[0].checkpoint() == machines[1].checkpoint()

    asyncio.run(main())
    kit.verified(storage)
    assert sum(each.action == "alarm" for each in controls(storage)) == 1
