import pytest

from sqlcache.bench import bounded


@pytest.mark.parametrize(
    ("policy", "indexed"), [("all", 20), ("deny=unique-0,...", 10), ("on-demand", 0)]
)
def test_policies_index_what_they_should(policy: str, indexed: int) -> None:
    found = bounded.taken(400, bounded.POLICIES[policy], labels=True)
    assert found.indexed == indexed
    assert min(found.page_bytes, found.load_s) > 0
