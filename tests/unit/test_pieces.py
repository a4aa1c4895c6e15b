"""Collections in pieces: the same as a list and a dict, but for the size of their parts."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sqlcache import open_store
from sqlcache.informer.pieces import PIECE, Pieces, Spread
from sqlcache.testing.factories import event, pod


def test_pieces_are_a_list_in_parts() -> None:
    numbers = Pieces(range(2 * PIECE + 1))
    numbers.put(PIECE, -1)
    numbers.adopt([7, 8])
    numbers.append(9)
    expected = [*range(2 * PIECE + 1), 7, 8, 9]
    expected[PIECE] = -1
    assert list(numbers) == expected
    assert len(numbers) == len(expected)
    parts = []
    for part in numbers.drained():
        parts.append(part)
        assert len(numbers) == len(expected) - sum(map(len, parts))
    assert [number for part in parts for number in part] == expected
    assert max(map(len, parts)) == PIECE
    assert not numbers


KEYS = st.sampled_from(["", "a", "b", "ü", "ns/name"])


@given(st.lists(st.tuples(st.sampled_from(["set", "pop", "get"]), KEYS, st.integers())))
def test_spread_is_a_dict(operations: list[tuple[str, str, int]]) -> None:
    spread: Spread[int] = Spread()
    model: dict[str, int] = {}
    for operation, key, value in operations:
        if operation == "set":
            spread[key] = model[key] = value
        elif operation == "pop":
            assert spread.pop(key) == model.pop(key, None)
        assert spread.get(key) == model.get(key)
        assert (key in spread) == (key in model)
    spread.clear()
    assert not any(key in spread for key in model)


def test_no_part_is_large() -> None:
    """The garbage collector goes through a container in one go, and nobody runs meanwhile."""
    numbers = Pieces(range(50_000))
    spread: Spread[int] = Spread()
    for number in range(50_000):
        spread[str(number)] = number

    def parts(of: Any) -> Any:
        for each in gc.get_referents(of):
            if isinstance(each, list | dict) or hasattr(each, "popleft"):
                yield each
                yield from parts(each)

    sizes = [len(each) for of in (numbers, spread) for each in parts(of)]
    assert len(sizes) > 300
    assert max(sizes) <= PIECE


def test_write_does_not_make_the_whole_store_young() -> None:
    """The collector lets go of a dict of texts, and had the store's back with the next write."""
    with open_store("sqlite") as store:
        store.replace([pod(f"p{number}") for number in range(2_000)], "1")
        gc.collect()
        store.apply([event("ADDED", pod("new"))])
        young = gc.get_objects(generation=0) + gc.get_objects(generation=1)
        large = [each for each in young if isinstance(each, dict) and len(each) > PIECE]
        assert not [each for each in large if "default/p1" in each]
