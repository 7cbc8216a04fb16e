"""Fixed positions: the places of documents that no ranker may move, and the list of the others that a ranker learns from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from duelrank.core.errors import InvalidValue
from duelrank.core.types import Feedback, Ranking
from duelrank.core.validation import whole_number

#: Nothing is placed.
NOWHERE: Mapping[str, int] = {}


class Placement:
    """A list in which some documents have fixed positions, and some may not be at the top.

    A ranker orders the other documents, which are free, and learns from these alone, as if the list had no other positions. So what
    it learns cannot depend on the placed documents. Those that may not be at the top come where ``order`` has them, but below it.

    Parameters
    ----------
    documents
        Ids of all documents.
    length
        Number of positions of the list.
    fixed
        Positions of documents by id, from 1; these need not be among the documents. If there are too few documents, or if the list
        is shorter, they are at its end, or are not shown.
    below_top
        By id of a document k, if it may not be in the top k. If there are fewer than k others, it comes after the free ones.
    order
        Ids of the documents in the order from which those in ``below_top`` have their places; by default that of ``documents``.

    Examples
    --------
    >>> from duelrank import Learner, Placement, Query
    >>> place = Placement(["sku7", "sku1", "sku42", "sku3"], 3, fixed={"sku42": 1}, below_top={"sku7": 2})
    >>> learner = Learner("mgd-dsp", n_features=1)
    >>> shown = learner.rank(Query("shoes", [[0.5], [0.1]]), place.n_free)  # the features of sku1 and sku3
    >>> learner.learn(shown, place.feedback(shown.ranking, clicked=["sku42"]))
    >>> place.free, [id for id in place.shown(shown.ranking) if id not in place.free]
    (['sku1', 'sku3'], ['sku42', 'sku7'])
    """

    def __init__(
        self,
        documents: Sequence[str],
        length: int,
        fixed: Mapping[str, int] = NOWHERE,
        below_top: Mapping[str, int] = NOWHERE,
        order: Sequence[str] | None = None,
    ) -> None:
        whole_number("length", length)
        _check(documents, fixed, below_top)
        #: The rows of the free documents, in the order of all documents, and their ids.
        self.rows = [row for row, id in enumerate(documents) if id not in fixed and id not in below_top]
        self.free = [documents[row] for row in self.rows]
        #: The number of all documents, with those of fixed positions.
        self.n_documents = len(self.free) + len(fixed) + len(below_top)
        ranks = {id: rank for rank, id in enumerate((id for id in order or documents if id not in fixed), 1)}
        late = [(max(k + 1, ranks[id]), ranks[id], id) for id, k in below_top.items()]
        self._slots = _slots(length, self.n_documents, len(self.free), fixed, late)
        #: The ids of the placed documents in the list, by position from 0.
        self.placed = {position: id for position, id in enumerate(self._slots) if id is not None}
        #: The number of positions of free documents.
        self.n_free = len(self._slots) - len(self.placed)

    def shown(self, ranking: Ranking | Sequence[int]) -> list[str]:
        """Return the ids of the list, given the order of the free documents, as their places in `free`."""
        return with_placed([self.free[row] for row in ranking], self.placed)

    def feedback(self, ranking: Ranking | Sequence[int], clicked: Sequence[str]) -> Feedback:
        """Return the feedback on the free documents; clicks on placed ones have no effect."""
        return Feedback(np.isin([self.free[row] for row in ranking], list(clicked)))


def with_placed(free: Sequence[str], placed: Mapping[int, str]) -> list[str]:
    """Return the ids of a whole list, given those of its free documents, in order, and the placed ones by position from 0.

    Examples
    --------
    >>> from duelrank.placing import with_placed
    >>> with_placed(["sku1", "sku3"], {0: "sku42"})
    ['sku42', 'sku1', 'sku3']
    """
    if not placed:
        return list(free)
    rest = iter(free)
    return [placed[place] if place in placed else next(rest) for place in range(len(free) + len(placed))]


def free_above(placed: Mapping[int, str], place: int) -> int:
    """Return the number of positions above a place, counted from 0, that are of free documents.

    Examples
    --------
    >>> from duelrank.placing import free_above
    >>> [free_above({0: "sku42"}, place) for place in range(3)]
    [0, 0, 1]
    """
    return place - sum(other < place for other in placed)


def _check(documents: Sequence[str], fixed: Mapping[str, int], below_top: Mapping[str, int]) -> None:
    for id, position in fixed.items():
        whole_number(f"the fixed position of {id!r}", position)
    if len(set(fixed.values())) < len(fixed):
        raise InvalidValue(f"two documents have the fixed position {Counter(fixed.values()).most_common(1)[0][0]}")
    known = set(documents)
    if len(known) < len(documents):
        raise InvalidValue(f"two documents have the id {Counter(documents).most_common(1)[0][0]!r}; ids must be unique")
    for id, k in below_top.items():
        whole_number(f"below_top of {id!r}", k)
        if id in fixed:
            raise InvalidValue(f"{id!r} is in fixed and in below_top; give one of them")
        if id not in known:
            raise InvalidValue(f"below_top has {id!r}, which is not among the documents")


def _slots(
    length: int, n_documents: int, n_free: int, fixed: Mapping[str, int], late: list[tuple[int, int, str]]
) -> list[str | None]:
    """Return the placed document of each position, None for a free one.

    ``late`` has the first possible position of a document, its rank, and its id: where several are possible, the best comes first.
    """
    at, ready, found = {position: id for id, position in fixed.items()}, list[tuple[int, str]](), list[str | None]()
    beyond = iter(sorted(position for position in at if position > n_documents))
    heapify(late)
    for position in range(1, min(length, n_documents) + 1):
        while late and (late[0][0] <= position or not n_free):
            heappush(ready, heappop(late)[1:])
        if position in at:
            found.append(at[position])
        elif ready:
            found.append(heappop(ready)[1])
        elif n_free:
            found.append(None)
            n_free -= 1
        else:  # too few documents: those whose positions are beyond the end
            found.append(at[next(beyond)])
    return found
