"""Stage 4: simulates users, who click on lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from duelrank.core.errors import InvalidRecipe, InvalidValue
from duelrank.core.registry import Between, Part, alias, register
from duelrank.core.types import Feedback, Labels, Stream
from duelrank.kernels import users as kernel
from duelrank.kernels.random import uniform


@dataclass(frozen=True, repr=False)
class User(Part, ABC):
    """A simulated user, who clicks on lists whose labels are known to the simulation."""

    kind: ClassVar[str] = "user"

    @abstractmethod
    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Return clicks on a list, given the grade of each shown document."""

    def for_grades(self, n_grades: int) -> User:
        """Return this user with its behaviour on data with grades 0 to n_grades − 1."""
        return self

    def at(self, step: int) -> User:
        """Return the user at one impression, numbered from 0; call `for_grades` first. Most users never change."""
        return self


@register
@dataclass(frozen=True, repr=False)
class Cascade(User):
    """Scan from the top; at each document click with P(click | grade), then stop with P(stop | grade).

    Parameters
    ----------
    click_probability, stop_probability
        One probability per grade, from grade 0 up.
    stop_without_click
        Whether the user may stop after a document that was not clicked, as in the paper ("after evaluating each document, the
        user must decide whether or not to continue"). False is the textbook rule: stop only after a click.

    References
    ----------
    Craswell et al., "An experimental comparison of click position-bias models" (WSDM 2008); Guo, Liu and Wang, "Efficient
    multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    This user clicks on every relevant document, and leaves with the first click:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import Cascade
    >>> user = Cascade(click_probability=(0.0, 1.0), stop_probability=(0.0, 1.0))
    >>> feedback = user.click(np.array([0, 1, 0, 1], np.int8), stream(1, "user"))
    >>> feedback.clicks.tolist(), feedback.examined
    ([False, True, False, False], 2)
    """

    click_probability: tuple[Annotated[float, Between(0.0, 1.0)], ...] = (0.05, 0.5, 0.95)
    stop_probability: tuple[Annotated[float, Between(0.0, 1.0)], ...] = (0.2, 0.5, 0.9)
    stop_without_click: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.click_probability) != len(self.stop_probability) or not self.click_probability:
            raise InvalidRecipe(
                "Cascade needs one click and one stop probability per grade, got "
                f"{len(self.click_probability)} and {len(self.stop_probability)}"
            )

    def for_grades(self, n_grades: int) -> Cascade:
        """Return this user if its probabilities cover the grades."""
        if n_grades > len(self.click_probability):
            covered = len(self.click_probability)
            raise InvalidValue(f"{self!r} has probabilities for {covered} grades, but the data has {n_grades}")
        return self

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Scan the list from the top; `examined` is the number of positions evaluated before stopping."""
        clicks, examined = kernel.cascade(shown, *self._tables, stream)
        if examined < 0:
            covered = len(self.click_probability)
            raise InvalidValue(f"{self!r} has probabilities for grades 0 to {covered - 1}, got {shown.tolist()}")
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return P(click | grade), and P(stop | rank, grade) after a click and without one, equal at all ranks."""
        stop = np.array([self.stop_probability])
        return np.array(self.click_probability), stop, stop if self.stop_without_click else np.zeros_like(stop)


Probabilities = tuple[float, ...]

#: Behaviour -> number of grades -> P(click | grade), P(stop | grade).
BEHAVIOURS: dict[str, dict[int, tuple[Probabilities, Probabilities]]] = {
    "perfect": {
        2: ((0.0, 1.0), (0.0, 0.0)),
        3: ((0.0, 0.5, 1.0), (0.0, 0.0, 0.0)),
        5: ((0.0, 0.2, 0.4, 0.8, 1.0), (0.0, 0.0, 0.0, 0.0, 0.0)),
    },
    "navigational": {
        2: ((0.05, 0.95), (0.2, 0.9)),
        3: ((0.05, 0.5, 0.95), (0.2, 0.5, 0.9)),
        5: ((0.05, 0.3, 0.5, 0.7, 0.95), (0.2, 0.3, 0.5, 0.7, 0.9)),
    },
    "informational": {
        2: ((0.4, 0.9), (0.1, 0.5)),
        3: ((0.4, 0.7, 0.9), (0.1, 0.3, 0.5)),
        5: ((0.4, 0.6, 0.7, 0.8, 0.9), (0.1, 0.2, 0.3, 0.4, 0.5)),
    },
    "almost-random": {
        2: ((0.4, 0.6), (0.5, 0.5)),
        3: ((0.4, 0.5, 0.6), (0.5, 0.5, 0.5)),
        5: ((0.4, 0.45, 0.5, 0.55, 0.6), (0.5, 0.5, 0.5, 0.5, 0.5)),
    },
}


@register
@dataclass(frozen=True, repr=False)
class Preset(User):
    """A standard cascade user of the literature; its probabilities depend on the number of grades in the data.

    Parameters
    ----------
    behaviour
        perfect (clicks by relevance, reads all), navigational (wants one good document), informational (clicks a lot,
        also on irrelevant documents) or almost-random.
    stop_without_click
        Whether the user may stop after a document that was not clicked, as in `Cascade`.

    Examples
    --------
    Clicks on 1,000 lists with a bad document first and a good one second:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import Preset
    >>> for behaviour in ("perfect", "navigational", "almost-random"):
    ...     user = Preset(behaviour).for_grades(2)
    ...     lists = [user.click(np.array([0, 1], np.int8), stream(1, "user", n)).clicks for n in range(1000)]
    ...     print(behaviour, sum(lists, np.zeros(2, int)).tolist())
    perfect [0, 1000]
    navigational [52, 753]
    almost-random [385, 282]
    """

    behaviour: Literal["perfect", "navigational", "informational", "almost-random"] = "navigational"
    stop_without_click: bool = True

    def for_grades(self, n_grades: int) -> Cascade:
        """Return the cascade user with the probabilities of this behaviour for a number of grades."""
        tables = BEHAVIOURS[self.behaviour]
        if n_grades not in tables:
            known = ", ".join(map(str, tables))
            raise InvalidValue(f"{self.behaviour} users are defined for {known} grades, but the data has {n_grades}")
        click, stop = tables[n_grades]
        return Cascade(click, stop, self.stop_without_click)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Raise an error: the probabilities depend on the number of grades."""
        raise InvalidValue(f"the number of grades is not set; use {self!r}.for_grades(3).click(...)")


for _behaviour in BEHAVIOURS:
    alias(_behaviour, Preset(behaviour=_behaviour))  # type: ignore[arg-type]  # the keys are the literals


@dataclass(frozen=True, repr=False)
class ClickModel(User):
    """A user with the click probabilities of another user, and its own way to examine the list.

    Parameters
    ----------
    like
        The user whose probabilities per grade are used: one of the standard users, which define them for 2, 3 and 5 grades, or a
        `Cascade` with explicit probabilities. How that user scans a list does not matter.
    """

    # Only the tables of the other user count, not its rule for stopping.
    inert_fields: ClassVar[frozenset[str]] = frozenset({"like.stop_without_click"})

    like: Preset | Cascade = Preset()

    def for_grades(self, n_grades: int) -> Self:
        """Return this user with the probabilities for a number of grades."""
        return replace(self, like=self.like.for_grades(n_grades))

    @cached_property
    def attraction(self) -> NDArray[np.float64]:
        """P(click | grade) of a document that is examined."""
        return np.array(self._chosen.click_probability)

    @cached_property
    def satisfaction(self) -> NDArray[np.float64]:
        """P(stop | grade) after a click."""
        return np.array(self._chosen.stop_probability)

    @property
    def _chosen(self) -> Cascade:
        if isinstance(self.like, Preset):
            raise InvalidValue(f"the number of grades is not set; use {self!r}.for_grades(3).click(...)")
        return self.like

    def _refusal(self, shown: Labels) -> InvalidValue:
        covered = self.attraction.size
        return InvalidValue(f"{self!r} has probabilities for grades 0 to {covered - 1}, got {shown.tolist()}")


@register
@dataclass(frozen=True, repr=False)
class DCM(ClickModel):
    """Dependent clicks: scan from the top, click by grade; continue after a click at rank r with probability λ_r, else always.

    `examined` is the last rank that was evaluated: the rank of the click after which the user left, or the length of the list.

    Parameters
    ----------
    like
        The user whose click probabilities are used.
    continuation
        λ from rank 1 down; the last one holds for all further ranks. The default, which falls from 0.9 to 0.5, is a choice, not
        an estimate.

    References
    ----------
    Guo, Liu and Wang, "Efficient multiple-click models in web search" (WSDM 2009).

    Examples
    --------
    All documents attract, and after each click half of the users leave:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import DCM
    >>> user = DCM(like="perfect", continuation=(0.5,)).for_grades(2)
    >>> lists = [user.click(np.ones(4, np.int8), stream(1, "user", n)).clicks for n in range(1000)]
    >>> np.mean(lists, axis=0).round(2).tolist()
    [1.0, 0.46, 0.23, 0.11]
    """

    continuation: tuple[Annotated[float, Between(0.0, 1.0)], ...] = (0.9, 0.8, 0.7, 0.6, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.continuation:
            raise InvalidRecipe(
                "DCM needs at least one probability to continue after a click, such as continuation=(0.5,)"
            )

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Scan the list until a click ends the session."""
        clicks, examined = kernel.cascade(shown, self.attraction, *self._stops, stream)
        if examined < 0:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _stops(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P(stop | rank, grade) after a click and without one."""
        clicked = np.repeat(1.0 - np.array(self.continuation)[:, None], self.attraction.size, axis=1)
        return clicked, np.zeros_like(clicked)


alias("dcm", DCM())


@register
@dataclass(frozen=True, repr=False)
class DBN(ClickModel):
    """Dynamic Bayesian network: click attractive documents, leave if satisfied, else continue with perseverance γ.

    Satisfaction is not observable, so one random draw decides on satisfaction and perseverance: the user stops with probability
    1 − γ(1 − satisfaction) after a click, and 1 − γ without one. `examined` is the last rank that was evaluated.

    Parameters
    ----------
    like
        The user whose click probabilities are the attraction, and whose stop probabilities are the satisfaction.
    perseverance
        γ: probability that an unsatisfied user continues.

    References
    ----------
    Chapelle and Zhang, "A dynamic Bayesian network click model for web search ranking" (WWW 2009).

    Examples
    --------
    The good document is last. Impatient users rarely reach it:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import DBN
    >>> for perseverance in (0.5, 0.9):
    ...     user, shown = DBN("perfect", perseverance).for_grades(2), np.array([0, 0, 0, 1], np.int8)
    ...     lists = [user.click(shown, stream(1, "user", n)).clicks for n in range(1000)]
    ...     print(perseverance, np.mean(lists, axis=0).round(2).tolist())
    0.5 [0.0, 0.0, 0.0, 0.11]
    0.9 [0.0, 0.0, 0.0, 0.72]
    """

    perseverance: Annotated[float, Between(0.0, 1.0)] = 0.9

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Scan the list until satisfied or out of patience."""
        clicks, examined = kernel.cascade(shown, self.attraction, *self._stops, stream)
        if examined < 0:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, examined)

    @cached_property
    def _stops(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P(stop | rank, grade) after a click and without one, equal at all ranks."""
        clicked = 1.0 - self.perseverance * (1.0 - self.satisfaction[None, :])
        return clicked, np.full_like(clicked, 1.0 - self.perseverance)


alias("dbn", DBN())


@register
@dataclass(frozen=True, repr=False)
class PBM(ClickModel):
    """Position-based model: examine rank r with probability 1/r^η, independently; click examined documents by their grade.

    P(click at rank r) = r^−η · P(click | grade). The examined positions need not be the first ones, so the feedback has
    no `examined` depth, and `Observed` cannot be used with this user.

    Parameters
    ----------
    like
        The user whose click probabilities are used.
    decay
        η: 0 is a user who sees everything; 1 is the usual choice in simulations.

    References
    ----------
    Richardson, Dominowska and Ragno, "Predicting clicks" (WWW 2007); Joachims, Swaminathan and Schnabel, "Unbiased
    learning-to-rank with biased feedback" (WSDM 2017), for the form of P(examine).

    Examples
    --------
    Five documents of the highest grade: only positions differ.

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import PBM
    >>> user = PBM(like="perfect").for_grades(2)
    >>> lists = [user.click(np.ones(5, np.int8), stream(1, "user", n)).clicks for n in range(1000)]
    >>> np.mean(lists, axis=0).round(2).tolist()
    [1.0, 0.54, 0.33, 0.25, 0.21]
    """

    decay: Annotated[float, Between(0)] = 1.0

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Decide on each position independently."""
        clicks, covered = kernel.browse(shown, self.attraction, self.decay, self.decay, False, stream)
        if not covered:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, None)


alias("pbm", PBM())


@register
@dataclass(frozen=True, repr=False)
class UBM(ClickModel):
    """User browsing: whether rank r is examined depends on r and on how far above it the last click was.

    P(click at rank r) = γ · P(click | grade). The model has one free γ per rank and distance d to the last click; here they
    follow a formula: γ = r^−η before the first click, and ((r − d + 1) / r)^ρ after a click d ranks above. That is 1 just below the
    click and falls with the distance, less steeply further down the list. The examined positions need not be the first ones,
    so the feedback has no `examined` depth, and `Observed` cannot be used with this user.

    Parameters
    ----------
    like
        The user whose click probabilities are used.
    decay
        η, before the first click.
    decay_clicked
        ρ, after a click. The defaults approximate the values from a search log that simulations of unbiased learning to rank use;
        the mean difference over ten ranks is 0.07.

    References
    ----------
    Dupret and Piwowarski, "A user browsing model to predict search engine click data from past observations" (SIGIR 2008).

    Examples
    --------
    After a click users look at the next documents: the last one is clicked more often if the one above it is good, too.

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import UBM
    >>> user = UBM(like="perfect").for_grades(2)
    >>> for above in (0, 1):
    ...     shown = np.array([0, 0, 0, above, 1], np.int8)
    ...     print(above, np.mean([user.click(shown, stream(1, "user", n)).clicks[4] for n in range(1000)]).round(2))
    0 0.54
    1 0.81
    """

    decay: Annotated[float, Between(0)] = 0.4
    decay_clicked: Annotated[float, Between(0)] = 1.3

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Decide on each position, given the last click above it."""
        clicks, covered = kernel.browse(shown, self.attraction, self.decay, self.decay_clicked, True, stream)
        if not covered:
            raise self._refusal(shown)
        return Feedback.trusted(clicks, None)


alias("ubm", UBM())


@register
@dataclass(frozen=True, repr=False)
class Mixture(User):
    """Each list is shown to one of two users, chosen at random.

    Parameters
    ----------
    one, other
        The two users.
    share
        Probability of the other user.

    Examples
    --------
    Three in ten users click on a bad document:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import Cascade, Mixture
    >>> careful, careless = Cascade((0.0, 1.0), (0.0, 1.0)), Cascade((1.0, 1.0), (0.0, 0.0))
    >>> user = Mixture(careful, careless, share=0.3).for_grades(2)
    >>> sum(int(user.click(np.zeros(1, np.int8), stream(1, "user", n)).clicks[0]) for n in range(1000))
    291
    """

    one: User = Preset("navigational")
    other: User = Preset("informational")
    share: Annotated[float, Between(0.0, 1.0)] = 0.5

    def for_grades(self, n_grades: int) -> Self:
        """Return the mixture of both users for a number of grades."""
        return replace(self, one=self.one.for_grades(n_grades), other=self.other.for_grades(n_grades))

    def at(self, step: int) -> User:
        """Return the mixture of the two users at an impression."""
        one, other = self.one.at(step), self.other.at(step)
        return self if one is self.one and other is self.other else replace(self, one=one, other=other)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Choose a user at random, who then clicks with the rest of the stream."""
        return (self.other if uniform(stream) < self.share else self.one).click(shown, stream)


@register
@dataclass(frozen=True, repr=False)
class Opposed(User):
    """Click as another user would if grade g were n − 1 − g: the most relevant documents become the least relevant.

    For a change of intent, see `IntentDrift`. A simulation evaluates by the labels of the data, so an algorithm that learns well
    from this user has bad metrics; in the data set `Drifting` the labels change, too.

    Parameters
    ----------
    base
        The user whose preferences are reversed.
    n_grades
        Number of grades in the data; a simulation sets it.

    Examples
    --------
    The user clicks on the documents that the data labels irrelevant:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import Opposed
    >>> clicks = Opposed("perfect").for_grades(3).click(np.array([2, 0, 2, 0], np.int8), stream(1, "user")).clicks
    >>> clicks.nonzero()[0].tolist()
    [1, 3]
    """

    base: User = Preset()
    n_grades: Annotated[int, Between(1, 127)] | None = None

    def for_grades(self, n_grades: int) -> Self:
        """Return this user for a number of grades."""
        return replace(self, base=self.base.for_grades(n_grades), n_grades=n_grades)

    def at(self, step: int) -> User:
        """Return the opposite of the base at an impression."""
        base = self.base.at(step)
        return self if base is self.base else replace(self, base=base)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Let the base click on reversed grades."""
        if self.n_grades is None:
            raise InvalidValue(f"the number of grades is not set; use {self!r}.for_grades(3).click(...)")
        return self.base.click(self.n_grades - 1 - shown, stream)


@register
@dataclass(frozen=True, repr=False)
class IntentDrift(User):
    """One user first, another user later: the change is sudden, or the share of the later user grows with every impression.

    With `Opposed` as the later user, the relevance changes; with a user of the same preferences, only the click behaviour. A
    simulation continues to evaluate by the labels of the data: after a change of relevance, its metrics show how much of the old
    intent is still served, not how well the new one is. In the data set `Drifting` the labels change, too.

    Parameters
    ----------
    before, after
        The users before and after the change.
    start
        The number, from 0, of the first impression at which the later user may click.
    over
        Number of impressions of the transition, in which both users occur; 0: the change is sudden.

    Examples
    --------
    From list 100 on users want the opposite:

    >>> import numpy as np
    >>> from duelrank.core.randomness import stream
    >>> from duelrank.users import IntentDrift
    >>> users, shown = IntentDrift("perfect", "Opposed(perfect)", start=100).for_grades(2), np.array([0, 1], np.int8)
    >>> [int(users.at(n).click(shown, stream(1, "user", n)).clicks.argmax()) for n in (99, 100)]  # the clicked place
    [1, 0]
    """

    before: User = Preset()
    after: User = Opposed()
    start: Annotated[int, Between(0)] = 5_000
    over: Annotated[int, Between(0)] = 0

    def for_grades(self, n_grades: int) -> Self:
        """Return the drift between both users for a number of grades."""
        return replace(self, before=self.before.for_grades(n_grades), after=self.after.for_grades(n_grades))

    def at(self, step: int) -> User:
        """Return the user at an impression; during the transition a mixture, in which the share of the later user grows."""
        if step < self.start:
            return self.before.at(step)
        if step >= self.start + self.over:
            return self.after.at(step)
        share = (step - self.start + 1) / (self.over + 1)
        return Mixture(self.before.at(step), self.after.at(step), share)

    def click(self, shown: Labels, stream: Stream) -> Feedback:
        """Raise an error: the user depends on the number of the impression."""
        raise InvalidValue(f"the impression is not set; use {self!r}.at(0).click(...)")
