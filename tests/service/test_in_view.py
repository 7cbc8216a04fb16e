"""How far somebody looked at a live list, as events of User Behavior Insights tell it."""

from __future__ import annotations

import asyncio
import json

import pytest

from duelrank.service.http.decoding import decode_events


def told(number, position=None, document=None, action="impression"):
    """An event about the first list, as the feedback address decodes it."""
    attributes = {"object": {"object_id": document}, "position": {"ordinal": position}}
    content = {"action_name": action, "query_id": "i0", "timestamp": number, "event_attributes": attributes}
    return decode_events(json.dumps(content).encode(), b"", 10)


@pytest.mark.parametrize(
    ("looks", "examined"),
    [
        ([{"document": 2}], 3),
        ([{"document": 2}, {"document": 0}], 3),
        ([{"document": 1, "position": 40}], 2),  # where the document was is known better
        ([{"document": 1}, {"position": 4, "action": "scroll"}], 4),
        ([{"document": "elsewhere", "position": 2}], 2),
        ([{"document": "elsewhere"}], "not shown in this impression: 'elsewhere'"),
        ([{"document": "elsewhere", "position": 40}], "examined is from 0 to 5"),
    ],
)
def test_the_deepest_document_in_view(storage, kit, looks, examined):
    async def main():
        async with kit.running(storage) as service:
            await service.create(kit.spec())
            shown = (await service.rank("shop", kit.request(0))).ids
            events = []
            for number, look in enumerate(looks):
                place = look.get("document")
                events += told(number, **look | {"document": shown[place] if isinstance(place, int) else place})
            counts = await service.feedback("shop", events)
            if isinstance(examined, str):
                assert (counts.accepted, [each.reason[: len(examined)] for each in counts.invalid]) == (0, [examined])
                return
            assert (counts.accepted, counts.invalid) == (len(looks), [])
            await kit.until(lambda: kit.has_read_all(service))
            assert service._rankers["shop"].machine.open["i0"].examined == examined

    asyncio.run(main())
