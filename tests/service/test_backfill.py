"""Lists that another system ranked teach a ranker before it goes live; as events, so that none is lost and none counts twice."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from duelrank import Feedback, Learner, Query
from duelrank.core.errors import Conflict, InvalidRecipe, LimitExceeded
from duelrank.evidence.guard import BASELINE
from duelrank.service.definition import unpack_teams
from duelrank.service.http.schema import Change, Document, GuardSpec, LoggedImpression
from duelrank.service.intake import LogIntake, Rejected

TRUTH = np.array([1.0, -0.5, 0.0, 0.3])


def logged(kit, number: int, **others) -> LoggedImpression:
    """A list in the order in which documents come, with a click on the best of the first five."""
    rows = kit.table(number)
    documents = [Document(f"d{row}", features) for row, features in enumerate(rows.tolist())]
    best = int(np.argmax(rows[:5] @ TRUTH))
    return LoggedImpression(
        **{"impression_id": f"log-{number}", "documents": documents, "clicks": [f"d{best}"]} | others
    )


def log(kit, count: int, first: int = 0) -> list[LoggedImpression]:
    return [logged(kit, number) for number in range(first, first + count)]


async def taught(kit, service, count, name="shop"):
    """Wait until so many lists have taught, and the version that knows it is served."""

    def settled():
        machine, now = service._rankers[name].machine, service.ranker(name)
        served = machine is not None and not machine.changed and now.model_version == machine.version
        return now.backfilled == count and served and kit.has_read_all(service)

    await kit.until(settled, lambda: service.ranker(name))


@pytest.mark.parametrize("representation", ["raw", "curves", "query-scaled"])
def test_a_log_teaches_what_users_like(storage, kit, representation):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(representation=representation))
            counts = await service.backfill("shop", log(kit, 200))
            assert (counts.accepted, counts.duplicate, counts.invalid) == (200, 0, [])
            await taught(kit, service, 200)
            info = service.ranker("shop")
            assert (info.impressions, info.learned, info.failed, info.updates) == (0, 0, 0, 0)
            model = service.model("shop")
            agree = [
                np.corrcoef(model.score(kit.table(number)), kit.table(number) @ TRUTH)[0, 1]
                for number in range(900, 940)
            ]
            assert np.mean(agree) > 0.5
        kit.verified(storage)

    asyncio.run(main())


@pytest.mark.parametrize("representation", ["raw", "curves"])
def test_the_service_learns_what_a_learner_does(storage, kit, representation):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(representation=representation))
            await service.backfill("shop", log(kit, 50))
            await taught(kit, service, 50)
            return service.model("shop")

    learner, lists = Learner(f"{representation} >> mgd-dsp", n_features=4, seed=7), []
    for each in log(kit, 50):
        clicks = [document.id in each.clicks for document in each.documents]
        lists.append((Query("", [document.features for document in each.documents]), np.arange(8), Feedback(clicks)))
    learner.backfill(lists)
    assert np.array_equal(asyncio.run(main()).weights, learner.weights)
    assert learner.weights.any()


def test_a_list_teaches_once(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await service.backfill("shop", log(kit, 30))
            again = await service.backfill("shop", [*log(kit, 40), logged(kit, 39)])
            assert (again.accepted, again.duplicate) == (10, 31)
            await taught(kit, service, 40)
            at_once = service.model("shop").weights
        async with kit.running(storage) as service:  # the next process
            await taught(kit, service, 40)
            assert np.array_equal(service.model("shop").weights, at_once)
        kit.verified(storage)

    asyncio.run(main())


def test_a_list_whose_clicks_have_not_come_yet_can_be_sent_again(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            counts = await service.backfill("shop", [logged(kit, 0, clicks=[])])
            assert (counts.accepted, len(counts.invalid)) == (0, 1)
            assert (await service.backfill("shop", [logged(kit, 0)])).accepted == 1

    asyncio.run(main())


def test_in_pieces_or_in_one_go_it_is_the_same(kit, tmp_path):
    from duelrank.storage import open_storage

    async def weights(name, pieces):
        with open_storage(f"sqlite:///{tmp_path / name}") as storage:
            for piece in pieces:  # a process for each: what it learned goes on in the next
                async with kit.running(storage) as service:
                    await service.create(kit.spec(representation="curves"))
                    await service.backfill("shop", piece)
            async with kit.running(storage) as service:
                await taught(kit, service, 60)
                found = service.model("shop").weights
            kit.verified(storage)
            return found

    async def main():
        lists = log(kit, 60)
        whole = await weights("whole.db", [lists])
        parts = await weights("parts.db", [lists[:7], lists[7:40], lists[40:]])
        assert np.array_equal(whole, parts)
        assert whole.any()

    asyncio.run(main())


def test_invalid_lists_do_not_affect_others_and_have_a_reason(storage, kit):
    some = [Document("d1", [1.0, 2.0, 3.0, 4.0]), Document("d2", [0.0, 0.0, 0.0, 0.0])]
    bad = {
        "shown": LoggedImpression("a", some, clicks=["d9"]),
        "d2": LoggedImpression("b", some, clicks=["d2"], shown=1),
        "examined": LoggedImpression("c", some, examined=3),
        "4 features": LoggedImpression("d", [Document("d1", [1.0])]),
        "from 1 to": LoggedImpression("", some),
        "unreadable": Rejected("e", "unreadable"),
        "action": LoggedImpression("f", some, actions={"": ["d1"]}),
        "two documents": LoggedImpression("g", [some[0], some[0]]),
        "no action with a weight of this ranker: click": LoggedImpression(
            "h", some, actions={"hover": ["d1"]}, examined=2
        ),
    }

    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            counts = await service.backfill("shop", [logged(kit, 0), *bad.values(), logged(kit, 1)])
            assert (counts.accepted, counts.duplicate) == (2, 0)
            assert [each.index for each in counts.invalid] == list(range(1, 10))
            for word, found in zip(bad, counts.invalid, strict=True):
                assert word in found.reason, found
            await taught(kit, service, 2)

    asyncio.run(main())


def test_one_that_has_learned_from_its_own_lists_is_not_taught_any_more(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await service.backfill("shop", log(kit, 20))
            await taught(kit, service, 20)
            before = service.model("shop").weights
            answer = await service.rank("shop", kit.request(0))
            await service.feedback("shop", [kit.event(0, [answer.ranking[1].id])])
            await kit.learned(service, 1)
            assert np.linalg.norm(service.model("shop").weights - before) < 0.2, "it goes on from there"
            with pytest.raises(Conflict, match="lists of its own"):
                await service.backfill("shop", log(kit, 20, 20))
            assert service._rankers["shop"].machine.logged is None
        kit.verified(storage)

    asyncio.run(main())


def test_while_an_alarm_stands_a_log_teaches_nothing(storage, kit):
    """Of a ranker that has learned from no list of its own, because it does not explore."""

    async def main():
        async with kit.running(storage) as service:
            guard = GuardSpec(share=1.0, false_alarm_every=3.0, promote=(1.0,))
            await service.create(kit.spec(exploration=0.0, guard=guard, imitate=30))
            await service.backfill("shop", log(kit, 30))
            await taught(kit, service, 30)
            machine = service._rankers["shop"].machine
            for number in range(200):
                shown = (await service.rank("shop", kit.request(number))).ids
                await kit.until(lambda: kit.has_read_all(service))
                if machine.watch.stepped_back:
                    break
                teams = unpack_teams(machine.open[f"i{number}"].teams)
                clicks = [id for id, team in zip(shown, teams, strict=True) if team == BASELINE][:1]
                await service.feedback("shop", [kit.event(number, clicks)])
            assert machine.watch.stepped_back, "users prefer the baseline"
            with pytest.raises(Conflict, match="alarm"):
                await service.backfill("shop", log(kit, 1, 50))
            # One that was taken a moment before the alarm, and comes to the learner after it.
            intake = LogIntake(service._rankers["shop"].version.definition, service.settings, service.observer)
            await service._append(intake.events(log(kit, 1, 60), 0.0)[0])
            await kit.until(lambda: service.ranker("shop").unused == 1)
            await service.control("shop", "resume")
            await service.backfill("shop", log(kit, 1, 70))
            await taught(kit, service, 31)
        kit.verified(storage)

    asyncio.run(main())


def test_requests_that_cannot_be_learned_from_are_refused(storage, kit):
    async def main():
        async with kit.running(storage, max_events=10) as service:
            await service.create(kit.spec("pairs", "pairrank"))
            with pytest.raises(InvalidRecipe):
                await service.backfill("pairs", log(kit, 1))
            await service.create(kit.spec("shop"))
            with pytest.raises(LimitExceeded, match="10 lists"):
                await service.backfill("shop", log(kit, 11))
            await service.control("shop", "freeze")
            with pytest.raises(Conflict, match="frozen"):
                await service.backfill("shop", log(kit, 1))

    asyncio.run(main())


def test_a_change_of_features_in_between_starts_from_what_was_taught(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            await service.backfill("shop", log(kit, 20))
            await taught(kit, service, 20)
            taught_weights = service.model("shop").weights
            await service.change("shop", Change(retire_features=("title",)))
            assert np.array_equal(service.model("shop").weights, taught_weights[:3])
            named = [
                LoggedImpression(
                    each.impression_id, [Document(d.id, d.features[:3]) for d in each.documents], each.clicks
                )
                for each in log(kit, 20, 20)
            ]
            assert (await service.backfill("shop", named)).accepted == 20
            await taught(kit, service, 40)
        kit.verified(storage)

    asyncio.run(main())


def test_actions_of_a_log_weigh_what_the_ranker_says(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            for name, actions in (("clicks", {"click": 1.0}), ("buys", {"click": 1.0, "purchase": 8.0})):
                await service.create(kit.spec(name, "pdgd", actions=actions))
                lists = [logged(kit, each, actions={"purchase": ["d2"], "scroll": ["d0"]}) for each in range(30)]
                await service.backfill(name, lists)
                await taught(kit, service, 30, name)
            clicks, buys = service.model("clicks").weights, service.model("buys").weights
            assert not np.array_equal(clicks, buys)
            for name in ("clicks", "buys"):
                kit.verified(storage, name)

    asyncio.run(main())
