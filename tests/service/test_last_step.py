"""What the last step of learning was made of: the very step, to the bit, and told by the process that learns alone."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from duelrank.core.errors import NotReady, UnknownName
from duelrank.storage import open_storage


def learn(storage, kit, spec, after=lambda service: None, n_lists=6, ask=True):
    """Learn from some lists, one after the other; return what was told of each, and the last state."""

    async def main():
        told = []
        async with kit.running(storage) as service:
            await service.create(spec)
            for number in range(n_lists):
                answer = await service.rank("shop", kit.request(number))
                shown = [each.id for each in answer.ranking]
                before = service.model("shop").weights
                await service.feedback("shop", [kit.event(number, shown[1:2])])
                await kit.learned(service, number + 1)
                if ask:
                    told.append((service.last_step("shop"), shown, before, service.model("shop").weights))
            after(service)
            return told, service._rankers["shop"].machine.state

    return asyncio.run(main())


def named(kit, weights):
    return dict(zip(kit.features, weights.tolist(), strict=True))


def test_the_step_of_a_projected_bandit(storage, kit):
    told, _ = learn(storage, kit, kit.spec())
    moved = 0
    for number, (step, shown, before, after) in enumerate(told):
        assert (step.name, step.impression_id, step.step) == ("shop", f"i{number}", number + 1)
        assert (step.made_by_version, step.model_version) == (number + 1, number + 2)
        assert [each.id for each in step.documents] == shown
        assert [each.position for each in step.documents] == [1, 2, 3, 4, 5]
        assert [each.clicked for each in step.documents] == [False, True, False, False, False]
        assert [each.examined for each in step.documents] == [True] * 5  # down to the click, and three beyond it
        assert (step.weights_before, step.weights_after) == (named(kit, before), named(kit, after))
        if step.angle is None:
            assert step.direction_length == 0.0
            continue
        moved += 1
        direction, followed = np.array(list(step.direction.values())), np.array(list(step.followed.values()))
        assert step.direction_length == pytest.approx(np.linalg.norm(direction))
        assert step.followed_length == pytest.approx(1.0)  # it is scaled to that
        cosine = direction @ followed / step.direction_length
        assert math.cos(math.radians(step.angle)) == pytest.approx(cosine)
        assert np.allclose(after - before, 0.01 * followed)
    assert moved > 2


def test_documents_below_what_was_examined(storage, kit):
    told, _ = learn(storage, kit, kit.spec(algorithm="mgd-dsp(beyond=1)"), n_lists=1)
    assert [each.examined for each in told[0][0].documents] == [True, True, True, False, False]


def test_without_a_projection_the_direction_is_followed(storage, kit):
    told, _ = learn(storage, kit, kit.spec(algorithm="mgd"))
    assert any(step.angle is not None for step, *_ in told)
    for step, *_ in told:
        assert step.direction == step.followed
        assert step.angle is None or step.angle == pytest.approx(0.0, abs=1e-4)
        assert {each.examined for each in step.documents} == {None}


@pytest.mark.parametrize("algorithm", ["pdgd", "pairrank", "curves >> mgd-dsp", "query-scaled >> wmgd-dsp"])
def test_other_algorithms_and_curves_have_one_number_per_feature(storage, kit, algorithm):
    told, _ = learn(storage, kit, kit.spec(algorithm=algorithm), n_lists=20)  # curves get knots at the sixteenth list
    for step, *_ in told:
        for each in (step.direction, step.followed, step.weights_before, step.weights_after):
            assert tuple(each) == kit.features
    assert told[-1][0].weights_before == told[-2][0].weights_after


@pytest.mark.parametrize("algorithm", ["mgd-dsp", "curves >> wmgd-dsp", "pdgd"])
def test_asking_changes_nothing(kit, algorithm):
    """Whoever asks after every list learns the same, to the bit, and so does a replay."""
    states = []
    for ask in (True, False):
        with open_storage("sqlite://") as storage:
            states.append(learn(storage, kit, kit.spec(algorithm=algorithm), n_lists=20, ask=ask)[1])
            assert kit.verified(storage).learned == 20
    assert states[0].updates > 2
    assert states[0] == states[1]


def test_there_is_none_before_the_first_list_nor_for_a_stranger(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            with pytest.raises(UnknownName, match="has learned from no impression since"):
                service.last_step("shop")
            with pytest.raises(UnknownName, match="nobody"):
                service.last_step("nobody")

    asyncio.run(main())


def test_only_the_process_that_learns_knows(storage, kit, monkeypatch):
    def follow(service):
        monkeypatch.setattr(type(service), "leads", False)
        with pytest.raises(NotReady, match="another process leads"):
            service.last_step("shop")
        monkeypatch.undo()

    learn(storage, kit, kit.spec(), follow, n_lists=1)


def test_features_that_were_dropped(storage, kit):
    def drop(service):
        machine = service._rankers["shop"].machine
        machine.last_step = replace(machine.last_step, id="long ago")
        with pytest.raises(UnknownName, match="were dropped"):
            service.last_step("shop")

    learn(storage, kit, kit.spec(), drop, n_lists=1)
