"""Which names must be pickled together and in which order: graphs only.

Runs where values are packed. Owns the arithmetic of dependencies. Must not know values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def sharing_groups(keys: Mapping[str, Collection[int]]) -> list[frozenset[str]]:
    """Names joined whenever they have a key in common, directly or through others."""
    leader = {name: name for name in keys}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    first: dict[int, str] = {}
    for name, its_keys in keys.items():
        for key in its_keys:
            leader[find(name)] = find(first.setdefault(key, name))
    groups: dict[str, set[str]] = {}
    for name in keys:
        groups.setdefault(find(name), set()).add(name)
    return [frozenset(group) for group in groups.values()]


def ordered_groups(
    names: Iterable[str],
    together: Iterable[frozenset[str]],
    hard: Mapping[str, Collection[str]],
    soft: Mapping[str, Collection[str]],
) -> list[tuple[str, ...]]:
    """Groups in an order in which each can be unpickled.

    Args:
        names: all names.
        together: names that share something; each name is in exactly one of these.
        hard: what a name needs while it is unpickled; a circle of these is one group.
        soft: what its functions need when they run; unpickling may call them, so these come first where they can.
    """
    order = list(names)
    nodes = list(together)
    node_of = {name: i for i, group in enumerate(nodes) for name in group}

    def edges(graph: Mapping[str, Collection[str]], node: int) -> list[int]:
        return [
            node_of[other]
            for name in sorted(nodes[node])
            for other in graph.get(name, ())
            if other in node_of and node_of[other] != node
        ]

    hard_edges = {node: edges(hard, node) for node in range(len(nodes))}
    all_edges = {node: hard_edges[node] + edges(soft, node) for node in range(len(nodes))}
    result: list[tuple[str, ...]] = []
    for circle in components(range(len(nodes)), all_edges):
        inside = set(circle)
        for joint in components(circle, {node: [n for n in hard_edges[node] if n in inside] for node in circle}):
            members = set().union(*(nodes[node] for node in joint))
            result.append(tuple(name for name in order if name in members))
    return result


def components(nodes: Iterable[T], edges: Mapping[T, Collection[T]]) -> list[list[T]]:
    """Strongly connected components, each after those it points to (Tarjan 1972, without recursion)."""
    index: dict[T, int] = {}
    low: dict[T, int] = {}
    stack: list[T] = []
    on_stack: set[T] = set()
    result: list[list[T]] = []
    for start in nodes:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    component: list[T] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    result.append(component[::-1])
    return result
