"""Feedback without effect, and requests that contradict a known impression, say so."""

import asyncio

import pytest

from duelrank.core.errors import Conflict
from duelrank.service.http.schema import Change, GuardSpec
from duelrank.service.intake import FeedbackTroubles


def test_feedback_without_effect_is_told_once_per_reason(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            shown = (await service.rank("shop", kit.request(1))).ids
            fine = kit.event(1, shown[:1], close=False)
            assert (await service.feedback("shop", [fine])).warnings == []
            assert service.ranker("shop").warnings == ()
            bought = [kit.event(1, shown[:1], close=False, event_id=f"b{n}", action="purchase") for n in range(300)]
            strange = [kit.event(1, ["d99"], event_id="x"), kit.event(7), kit.event(8)]
            counts = await service.feedback("shop", bought + strange)
            assert (counts.accepted, counts.unknown, len(counts.invalid)) == (301, 2, 1)  # "x" closes the list
            action, document, impression = counts.warnings
            assert "weight" in action
            assert "'purchase'; actions of this ranker have weights for: click" in action
            assert "'d99'" in document
            assert "'i7', 'i8'" in impression
            assert service.ranker("shop").warnings == tuple(counts.warnings)
            await service.change("shop", Change(actions={"click": 1.0, "purchase": 10.0}))
            assert service.ranker("shop").warnings == (document, impression), "the action has a weight now"

    asyncio.run(main())


def test_a_click_that_cannot_be_printed_is_told(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec(actions={"50% off {}": 1.0}))
            await service.rank("shop", kit.request(1))
            counts = await service.feedback("shop", [kit.event(1, ["\ud800"]), kit.event(1, ["d0"], event_id="c")])
            assert "\\ud800" in counts.warnings[0]

    asyncio.run(main())


def test_the_memory_of_warnings_is_bounded():
    troubles = FeedbackTroubles()
    for number in range(1000):
        troubles.add("impression", f"{number}" * 1000)
    (sentence,) = troubles.sentences(())
    assert len(sentence) < 500
    other = FeedbackTroubles()
    other.add("impression", "i1")
    other.add_all(troubles)
    assert other.sentences(())[0].count(", ") == 2


class TestLengthOfAKnownImpression:
    @pytest.mark.parametrize("spec", [{}, {"guard": GuardSpec(share=1.0)}, {"mode": "shadow"}])
    def test_a_larger_one_is_a_conflict(self, storage, kit, spec):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(**spec))
                first = await service.rank("shop", kit.request(1, length=3))
                for length in (1, 3, None):
                    assert await service.rank("shop", kit.request(1, length=length)) == first
                with pytest.raises(
                    Conflict, match="exists with 3 positions and keeps its length, but 4 were requested"
                ):
                    await service.rank("shop", kit.request(1, length=4))
            async with kit.running(storage) as service:
                with pytest.raises(Conflict, match="3 positions"):
                    await service.rank("shop", kit.request(1, length=100))

        asyncio.run(main())

    def test_a_list_of_all_documents_is_never_too_short(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                first = await service.rank("shop", kit.request(1, length=50))
                assert len(first.ids) == 8
                assert await service.rank("shop", kit.request(1, length=100)) == first

        asyncio.run(main())

    def test_a_longer_default_of_the_ranker_changes_nothing(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                first = await service.rank("shop", kit.request(1))
                await service.change("shop", Change(length=7))
                assert await service.rank("shop", kit.request(1)) == first

        asyncio.run(main())


class TestExport:
    @pytest.mark.parametrize("representation", ["query-scaled", "query-scaled >> curves"])
    def test_what_cannot_be_exported_is_told_at_creation(self, storage, kit, representation):
        async def main():
            async with kit.running(storage) as service:
                info, _ = await service.create(kit.spec(representation=representation))
                (warning,) = info.warnings
                assert f"{representation} cannot be exported to elasticsearch, opensearch, ranklib, solr;" in warning
                assert "vespa" in warning.partition("they can to")[2]
                assert service.ranker("shop").warnings == info.warnings

        asyncio.run(main())

    @pytest.mark.parametrize("representation", ["raw", "curves", "steps"])
    def test_what_all_engines_can_compute_gives_no_warning(self, storage, kit, representation):
        async def main():
            async with kit.running(storage) as service:
                assert (await service.create(kit.spec(representation=representation)))[0].warnings == ()

        asyncio.run(main())
