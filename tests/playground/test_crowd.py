"""Simulated users: their taste, and their searches with two rankers."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.waiting import until_async

from duelrank.core.errors import InvalidRecipe, InvalidValue, UnknownName
from duelrank.playground import Search
from duelrank.playground.crowd import (
    DEFAULT_TASTE,
    MOST_POINTS,
    NAMES,
    Crowd,
    CrowdSettings,
    MeanCurve,
    as_weights,
    grades,
)
from duelrank.playground.search import FEATURES, Library
from duelrank.service import Service, Settings
from duelrank.storage import open_storage

DEPTH = list(FEATURES).index("depth")


def test_by_name():
    weights = as_weights({"depth": -0.5})
    assert weights[DEPTH] == -0.5
    assert np.count_nonzero(weights) == 1
    assert np.count_nonzero(as_weights(DEFAULT_TASTE)) == len(DEFAULT_TASTE)


def test_what_is_no_taste():
    with pytest.raises(UnknownName, match="depht"):
        as_weights({"depht": 0.5})
    for wrong in (1.5, float("nan")):
        with pytest.raises(InvalidValue, match="from -1"):
            as_weights({"depth": wrong})


def test_grades_follow_the_utility():
    features = np.zeros((50, len(FEATURES)))
    features[:, DEPTH] = np.arange(50)
    found = grades(as_weights({"depth": -1.0}), features)
    assert (np.diff(found.astype(int)) <= 0).all()  # the deeper the worse
    assert np.bincount(found).tolist() == [25, 10, 7, 5, 3]  # 50%, 30%, 16% and 6% have at least 1, 2, 3, 4
    assert (grades(as_weights({"depth": 0.1}), features) == found[::-1]).all()


def test_equal_documents_have_equal_grades():
    features = np.zeros((20, len(FEATURES)))
    features[10:, DEPTH] = 1.0
    assert grades(as_weights({"depth": 1.0}), features).tolist() == [0] * 10 + [4] * 10
    assert not grades(as_weights({}), features).any()
    assert not grades(as_weights(DEFAULT_TASTE), features[:1]).any()


def test_a_curve_has_few_points_and_forgets_nothing():
    curve = MeanCurve()
    assert curve.recent is None
    assert curve.overall is None
    for value in range(10_000):
        curve.add(float(value))
    assert MOST_POINTS / 2 <= len(curve.points) < MOST_POINTS
    assert len(curve.points) * curve.per_point == 10_000 - 10_000 % curve.per_point
    assert curve.points[0] == pytest.approx((curve.per_point - 1) / 2)
    assert curve.points == sorted(curve.points)
    assert curve.overall == pytest.approx(4999.5)
    assert curve.recent == pytest.approx(10_000 - 100.5)


def crowded(search, work):
    """Run something with a crowd on a service of its own."""

    async def main():
        with open_storage("sqlite://") as storage:
            service = Service(storage, Settings(publish_every=0.0, poll_every=0.02))
            await service.start()
            try:
                await service.wait_ready(300)
                crowd = Crowd(service, search)
                try:
                    return await work(crowd, service)
                finally:
                    await crowd.stop()
            finally:
                await service.stop()

    return asyncio.run(main())


class TestCrowd:
    def test_users_teach_both_rankers_what_they_like(self, search):
        async def work(crowd, service):
            settings = CrowdSettings(running=True, rate=1000.0, taste={"depth": -1.0}, algorithms=("mgd", "wmgd-dsp"))
            await crowd.change(settings)
            await until_async(lambda: crowd.lists >= 400)
            state = await crowd.change(
                CrowdSettings(running=False, taste={"depth": -1.0}, algorithms=("mgd", "wmgd-dsp"))
            )
            await until_async(lambda: all(service.ranker(name).learned == state.lists for name in NAMES))
            return state, [service.ranker(name) for name in NAMES], service.model(NAMES[1]).weights

        state, infos, weights = crowded(search, work)
        assert not state.running
        assert [each.algorithm for each in state.sides] == ["mgd", "wmgd-dsp"]
        for side, info in zip(state.sides, infos, strict=True):
            assert (info.impressions, info.failed) == (state.lists, 0)
            assert len(side.curve) == state.lists // state.per_point
        assert weights[list(FEATURES).index("depth")] < 0.0
        assert state.sides[1].lately > state.sides[1].curve[0]

    def test_what_they_choose_is_remembered_by_query(self, search):
        recipes = ("mgd-dsp", "remember >> mgd-dsp")

        async def work(crowd, service):
            await crowd.change(CrowdSettings(running=True, rate=1000.0, algorithms=recipes))
            await until_async(lambda: crowd.lists >= 300)
            state = await crowd.change(CrowdSettings(algorithms=recipes))
            await until_async(lambda: all(service.ranker(name).learned == state.lists for name in NAMES))
            return state, service.memory(NAMES[1]), [each.text for each in crowd._questions]

        state, memory, asked = crowded(search, work)
        assert not state.error
        assert 0 < memory.queries <= len(asked)
        assert {each.query for each in memory.remembered} <= set(asked)
        assert sum(each.lists for each in memory.remembered) == state.lists
        assert memory.remembered[0].effect > 0.0

    def test_they_stop_go_on_and_begin_anew(self, search):
        async def work(crowd, service):
            assert not (await crowd.change(CrowdSettings())).running
            assert (await crowd.change(CrowdSettings(running=True, rate=500.0))).running
            await until_async(lambda: crowd.lists >= 20)
            stopped = await crowd.change(CrowdSettings(running=False))
            await asyncio.sleep(0.1)
            assert crowd.lists == stopped.lists
            await crowd.change(CrowdSettings(running=True, rate=500.0))
            await until_async(lambda: crowd.lists > stopped.lists)
            await crowd.change(CrowdSettings(running=False, anew=True))
            assert crowd.state().lists == 0
            assert service.ranker(NAMES[0]).impressions == 0

        crowded(search, work)

    def test_a_bad_recipe_leaves_the_others_running(self, search):
        async def work(crowd, service):
            await crowd.change(CrowdSettings(running=True))
            with pytest.raises(InvalidRecipe, match="the second recipe"):
                await crowd.change(CrowdSettings(running=True, algorithms=("mgd", "pdgd(")))
            with pytest.raises(UnknownName):
                await crowd.change(CrowdSettings(running=True, taste={"smell": 1.0}))
            with pytest.raises(InvalidValue):
                await crowd.change(CrowdSettings(running=True, rate=0.0))
            assert crowd.running
            assert crowd.settings.algorithms == ("mgd", "mgd-dsp")

        crowded(search, work)

    @pytest.mark.parametrize("anew", [True, False])
    def test_a_deleted_ranker_stops_the_users_until_they_start_again(self, search, anew):
        async def work(crowd, service):
            await crowd.change(CrowdSettings(running=True))
            await service.delete(NAMES[1])
            await until_async(lambda: not crowd.running)
            assert NAMES[1] in crowd.state().error
            assert (await crowd.change(CrowdSettings(running=True, anew=anew))).error == ""
            await until_async(lambda: crowd.lists >= 5, crowd.state)
            await crowd.change(CrowdSettings(running=False))
            # Both rankers start again. The service counts a moment later.
            await until_async(lambda: [service.ranker(name).impressions for name in NAMES] == [crowd.lists] * 2)

        crowded(search, work)

    def test_a_bad_recipe_is_refused_before_anything_is_prepared(self, search, monkeypatch):
        def prepared(search):
            raise AssertionError("questions were looked for first")

        monkeypatch.setattr("duelrank.playground.crowd.questions", prepared)

        async def work(crowd, service):
            with pytest.raises(InvalidRecipe, match="the first recipe"):
                await crowd.change(CrowdSettings(running=True, algorithms=("mdg", "mgd")))

        crowded(search, work)

    def test_no_faster_than_asked(self, search):
        async def work(crowd, service):
            await crowd.change(CrowdSettings(running=True, rate=1.0))
            began = asyncio.get_running_loop().time()
            await until_async(lambda: crowd.lists >= 2)
            return asyncio.get_running_loop().time() - began

        assert crowded(search, work) > 1.5

    def test_nothing_to_search(self, library):
        search = Search(Library(library.documents[:3], library.importers))

        async def work(crowd, service):
            with pytest.raises(InvalidValue, match="so users cannot search"):
                await crowd.change(CrowdSettings(running=True))

        crowded(search, work)
        search.close()
