import pytest

from sqlcache.bench import levels
from sqlcache.bench.realistic import realistic_pods


def test_each_level_leaves_a_small_part_of_real_looking_pods() -> None:
    found = levels.measured(list(realistic_pods(200, 1)))
    assert [each.level for each in found] == list(levels.LEVELS)
    for each in found:
        assert 0 < each.bytes < each.plain_bytes / 5
        assert min(each.encode_us, each.decode_us, each.json_us) > 0


def test_too_few_pods_are_refused() -> None:
    with pytest.raises(ValueError, match="32 pods are needed, not 3"):
        levels.measured(list(realistic_pods(3, 1)))
