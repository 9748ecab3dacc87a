"""Which names go together and in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpulayer_nb.shipping.grouping import components, ordered_groups, sharing_groups


def test_names_that_share_through_a_third_are_one_group() -> None:
    groups = sharing_groups({"model": {1, 2}, "optimizer": {2, 3}, "scheduler": {3}, "data": {9}, "empty": set()})
    assert set(groups) == {frozenset({"model", "optimizer", "scheduler"}), frozenset({"data"}), frozenset({"empty"})}


def test_a_circle_of_hard_needs_is_one_group_and_a_soft_one_is_not() -> None:
    names = ["A", "B", "f", "g"]
    apart = [frozenset({name}) for name in names]
    groups = ordered_groups(names, apart, hard={"A": {"B"}, "B": {"A"}}, soft={"f": {"g"}, "g": {"f"}})
    assert sorted(groups) == [("A", "B"), ("f",), ("g",)]


def test_what_a_name_needs_to_be_unpickled_comes_first_even_inside_a_soft_circle() -> None:
    names = ["helper", "model", "Net"]
    groups = ordered_groups(
        names, [frozenset({n}) for n in names], hard={"model": {"Net"}}, soft={"Net": {"helper"}, "helper": {"model"}}
    )
    assert groups.index(("Net",)) < groups.index(("model",))


def test_code_that_unpickling_may_call_comes_first() -> None:
    names = ["config", "Config", "check"]
    groups = ordered_groups(names, [frozenset({n}) for n in names], hard={"config": {"Config"}}, soft={"Config": {"check"}})
    assert groups == [("check",), ("Config",), ("config",)]


graphs = st.integers(1, 8).flatmap(
    lambda n: st.fixed_dictionaries({i: st.lists(st.integers(0, n - 1), max_size=n, unique=True) for i in range(n)})
)


@given(graphs)
def test_components_are_the_mutually_reachable_and_come_after_what_they_point_to(edges: dict[int, list[int]]) -> None:
    def reachable(start: int) -> set[int]:
        seen, waiting = {start}, [start]
        while waiting:
            new = set(edges[waiting.pop()]) - seen
            seen |= new
            waiting.extend(new)
        return seen

    found = components(edges, edges)
    place = {node: i for i, component in enumerate(found) for node in component}
    assert sorted(place) == sorted(edges)
    for a in edges:
        for b in edges:
            assert (place[a] == place[b]) == (a in reachable(b) and b in reachable(a))
        assert all(place[b] <= place[a] for b in edges[a])
