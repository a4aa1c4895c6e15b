"""The bench's pods, selectors and events: what each query claims to match, it matches."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import orjson
import pytest

from sqlcache.bench import realistic, workloads
from sqlcache.bench.answers import by_plain_rule
from sqlcache.bench.results import Parameters
from sqlcache.bench.scenarios import churning, queries
from sqlcache.bench.scenarios.memory import labelled_pods
from sqlcache.bench.scenarios.workload import Job
from sqlcache.bench.workloads import Feed, Query, Question
from sqlcache.objects import Objects, labels_of

PODS = 2000
MADE: dict[str, tuple[type[queries.Queries], dict[str, Any]]] = {
    "single-label": (queries.SingleLabel, {}),
    "multi-label": (queries.MultiLabel, {"labels": 10, "terms": [1, 2, 3, 4, 5]}),
    "set-based": (queries.SetBased, {"namespaces": 10}),
    "set-based in one namespace": (queries.SetBased, {"namespaces": 1}),
    "namespaces": (queries.Namespaces, {"namespaces": 10}),
}


def made(name: str, tmp_path: Any, seed: int = 1) -> tuple[Objects, list[Query], queries.Queries]:
    kind, options = MADE[name]
    parameters = Parameters(PODS, ("dict",), ("single-label",), seed=seed)
    workload = kind(Job("", "dict", parameters, options, str(tmp_path)))
    pods, made = workload.data(Random(seed))
    return pods, made, workload


def matches(pods: Objects, questions: list[Question]) -> list[int]:
    return [count for count, _ in by_plain_rule(pods, questions)]


def test_uniform_column_gives_each_value_equally_often() -> None:
    column = workloads.uniform(Random(1), 1000, "app", 7)
    counts = Counter(value for _, value in column)
    assert len(counts) == 7
    assert set(counts.values()) == {142, 143}


def test_zipf_column_is_skewed() -> None:
    counts = Counter(value for _, value in workloads.zipf(Random(1), 20_000, "app", 1000))
    assert counts["app-1"] > 1.5 * counts["app-2"] > 2 * counts["app-10"] > 0


def test_same_seed_gives_the_same_pods_and_other_seeds_others(tmp_path: Any) -> None:
    first, queries_made, _ = made("single-label", tmp_path)
    again, same, _ = made("single-label", tmp_path)
    other, _, _ = made("single-label", tmp_path, seed=2)
    assert first == again
    assert queries_made == same
    assert first != other


def test_pods_share_no_strings() -> None:
    """Strings that two pods share would be found equal by identity, and count once in memory."""
    first, second = workloads.pods_with([[("app", "web")] * 2], ["shop"] * 2)
    assert labels_of(first) == labels_of(second)
    assert labels_of(first)["app"] is not labels_of(second)["app"]


@pytest.mark.parametrize("name", MADE)
def test_no_first_question_was_asked_to_check(name: str, tmp_path: Any) -> None:
    _, made_queries, _ = made(name, tmp_path)
    for query in made_queries:
        assert len(query.first) >= 5
        assert len(query.repeat) <= 20
        assert len(set(query.first)) == len(query.first)
        assert not set(query.first) & set(query.check)


def test_single_label_matches_the_share_in_its_name(tmp_path: Any) -> None:
    pods, (narrow, broad, *_), _ = made("single-label", tmp_path)
    assert set(matches(pods, narrow.first)) == {2}
    assert set(matches(pods, broad.first)) == {200}


def test_broad_first_questions_touch_different_pods(tmp_path: Any) -> None:
    """Objects that one question decoded would make the next one's answer look cheap."""
    pods, (_, broad, *_), _ = made("single-label", tmp_path)
    assert sum(matches(pods, broad.first)) <= len(pods)


@pytest.mark.parametrize(("place", "term"), [("first", 0), ("last", -1)])
def test_selective_term_stands_where_the_query_says(place: str, term: int, tmp_path: Any) -> None:
    """Requirements are sorted by key, so the place of a term is that of its key."""
    pods, made_queries, _ = made("multi-label", tmp_path)
    (query,) = (
        each for each in made_queries if each.name == f"5 of 10 labels, selective one {place}"
    )
    for question in query.first[:10]:
        requirements = question.selector.requirements
        assert len(requirements) == 5
        assert requirements[term].key.endswith("-svc")
        assert sum(each.key.endswith("-svc") for each in requirements) == 1
    assert set(matches(pods, query.first)) == {2}


def test_all_pods_have_as_many_labels_as_asked_for(tmp_path: Any) -> None:
    pods, _, _ = made("multi-label", tmp_path)
    assert {len(labels_of(pod)) for pod in pods} == {10}


def test_two_broad_terms_match_the_share_in_their_name(tmp_path: Any) -> None:
    pods, made_queries, _ = made("multi-label", tmp_path)
    one, eight = (each for each in made_queries if each.name.startswith("2 broad"))
    assert 10 <= sorted(matches(pods, one.first))[len(one.first) // 2] <= 40
    assert 120 <= sorted(matches(pods, eight.first))[len(eight.first) // 2] <= 210


def test_every_operator_is_asked(tmp_path: Any) -> None:
    _, made_queries, _ = made("set-based", tmp_path)
    used = {
        requirement.operator.name
        for query in made_queries
        for requirement in query.first[0].selector.requirements
    }
    assert used >= {"IN", "NOT_IN", "NOT_EQUALS", "EXISTS", "DOES_NOT_EXIST"}
    assert used >= {"GREATER_THAN", "LESS_THAN", "EQUALS"}


def test_set_based_queries_match_neither_nothing_nor_everything(tmp_path: Any) -> None:
    pods, made_queries, _ = made("set-based in one namespace", tmp_path)
    for query in made_queries:
        counts = matches(pods, query.first[:5])
        assert 0 < max(counts) < len(pods), query.name


def test_questions_of_one_namespace_visit_all_namespaces(tmp_path: Any) -> None:
    _, made_queries, _ = made("namespaces", tmp_path)
    one, everywhere = made_queries[0], made_queries[2]
    assert len({question.namespace for question in one.first}) == 10
    assert {question.namespace for question in everywhere.first} == {""}


@pytest.mark.parametrize("pods", [1, 2, 10, 99])
@pytest.mark.parametrize("name", MADE)
def test_few_pods_are_enough(name: str, pods: int, tmp_path: Any) -> None:
    kind, options = MADE[name]
    workload = kind(Job("", "dict", Parameters(pods, ("dict",), ()), options, str(tmp_path)))
    made_pods, made_queries = workload.data(Random(1))
    assert len(made_pods) == pods
    assert all(query.first and query.repeat and query.check for query in made_queries)


def test_slow_line_is_asked_once_before_and_has_its_least_samples(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "_SLOW_US", 0)  # every call is slow
    parameters = Parameters(500, ("dict",), (), cell_s=0)
    job = Job("", "dict", parameters, MADE["set-based"][1], str(tmp_path))
    workload = queries.SetBased(job)
    asked: list[object] = []
    select = workload.subject.store.select

    def noted(*question: Any) -> Objects:
        asked.append(question)
        return select(*question)

    monkeypatch.setattr(workload.subject.store, "select", noted)
    answers = workload.prepare()
    answered = [number for number, given in enumerate(answers) if given is not None]
    assert answered == list(range(0, len(answers), 8))
    first, repeat = workload.cells()[:2]
    assert sum(len(first.measure(number)[0].samples_us) for number in range(4)) == 4
    asked.clear()
    assert sum(len(repeat.measure(number)[0].samples_us) for number in range(4)) == 4
    wake_ups = 3
    assert len(asked) == 1 + 4 + wake_ups
    assert len(set(asked)) == 2
    workload.close()


@pytest.mark.parametrize("changed", [0, 1, 5])
def test_feed_changes_as_many_labels_as_asked_for(changed: int) -> None:
    pods = workloads.pods_with(
        workloads.five_labels(Random(1), PODS), workloads.one_namespace(PODS)
    )
    before = [dict(labels_of(pod)) for pod in pods]
    feed = Feed(pods, seed=1)
    for event in feed.batch(50, changed):
        obj = event["object"]
        number = int(obj["metadata"]["name"].removeprefix("pod-"))
        assert event["type"] == "MODIFIED"
        assert pods[number] is obj
        labels = labels_of(obj)
        assert labels.keys() == before[number].keys()
        assert sum(labels[key] != before[number][key] for key in labels) == changed


def test_feed_numbers_its_events_upwards() -> None:
    pods = workloads.pods_with(workloads.five_labels(Random(1), 10), workloads.one_namespace(10))
    events = [event for _ in range(3) for event in Feed(pods, 1).batch(10, None)][:10]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert all(first < second for first, second in pairwise(versions))


def test_realistic_pods_are_of_about_4_kb_and_differ() -> None:
    documents = list(realistic.realistic_pods(200, seed=1))
    assert documents == list(realistic.realistic_pods(200, seed=1))
    assert all(3_500 < len(document) < 5_500 for document in documents)
    pods = [orjson.loads(document) for document in documents]
    names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
    assert len(names) == 200
    assert {namespace for namespace, _ in names} <= set(realistic.NAMESPACES)
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}


def test_memory_pods_have_ten_shared_and_ten_unique_labels() -> None:
    pods = labelled_pods(100, 1, labels=True)
    bare = labelled_pods(100, 1, labels=False)
    values = Counter(label for pod in pods for label in labels_of(pod).items())
    assert {len(labels_of(pod)) for pod in pods} == {20}
    assert sum(count == 1 for count in values.values()) == 10 * 100
    assert all(not labels_of(pod) for pod in bare)
    assert [pod["metadata"]["name"] for pod in pods] == [pod["metadata"]["name"] for pod in bare]


def test_every_pod_has_its_turn_before_any_has_another() -> None:
    pods = workloads.ordinary_pods(50, "turns")
    before = [dict(labels_of(pod)) for pod in pods]
    feed = Feed(pods, 1)
    events = feed.turn(20) + feed.turn(30)
    assert len({event["object"]["metadata"]["name"] for event in events}) == 50
    for old, pod in zip(before, pods, strict=True):
        new = labels_of(pod)
        assert sum(old[key] != new[key] for key in old) == 1
    again = feed.turn(50)
    assert [each["object"]["metadata"]["name"] for each in again] == [
        each["object"]["metadata"]["name"] for each in events
    ]


@pytest.mark.parametrize(
    ("pods", "seconds", "events"), [(600, 60.0, 600), (600, 0.5, 5), (7, 1, 1)]
)
def test_churn_changes_every_pod_once_a_minute(pods: int, seconds: float, events: int) -> None:
    parameters = Parameters(pods, ("dict",), ("churn",))
    workload = churning.Churn(Job("churn", "dict", parameters, {"seconds": seconds}, ""))
    workload.prepare()
    bursts = [orjson.loads(burst) for burst in workload.bursts(seconds)]
    workload.close()
    assert len(bursts) == round(seconds * 100)
    assert sum(map(len, bursts)) == events
    assert max(map(len, bursts)) <= 1
