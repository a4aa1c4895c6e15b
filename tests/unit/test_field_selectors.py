"""Field selectors; expected texts are those of apimachinery's fields.ParseSelector."""

from __future__ import annotations

from typing import Any

import pytest

from sqlcache.errors import SelectorSyntaxError
from sqlcache.selectors import METADATA_FIELDS, POD_FIELDS, Operator, parse_field_selector

ANY = ("a", "b", "c", " a", "a ", r"a\,b", "a!", "é")

ODD: tuple[Any, ...] = (None, "x", 5, [], ["x"])

POD: dict[str, Any] = {
    "metadata": {"name": "web-1", "namespace": "shop"},
    "spec": {
        "nodeName": "node-1",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "web",
        "hostNetwork": True,
    },
    "status": {"phase": "Running", "podIP": "10.0.0.1", "nominatedNodeName": "node-2"},
}


def refused(text: str, **options: Any) -> SelectorSyntaxError:
    with pytest.raises(SelectorSyntaxError) as caught:
        parse_field_selector(text, **options)
    return caught.value


class TestParse:
    @pytest.mark.parametrize(
        ("text", "canonical"),
        [
            ("", ""),
            (",", ""),
            (",,a=1,,", "a=1"),
            ("a=1", "a=1"),
            ("a==1", "a=1"),
            ("a!=1", "a!=1"),
            ("a=", "a="),
            ("b=2,a=1", "a=1,b=2"),
            ("a=2,a=1", "a=1,a=2"),
            ("a=1,a=1", "a=1,a=1"),
            ("a=x y ", "a=x y "),
            (" a=1", " a=1"),
            ("a =1", "a =1"),
            ("a!!=1", "a!!=1"),
            (r"a=\\\,\=", r"a=\\\,\="),
            (r"a\,b=1", r"a\,b=1"),
            ("=", ""),
            ("!=", ""),
            ("a=1,==", "a=1"),
            ("é=日😀", "é=日😀"),
            ("a=!", "a=!"),
            ("a=\0", "a=\0"),
        ],
    )
    def test_text_is_read_as_by_parse_selector(self, text: str, canonical: str) -> None:
        selector = parse_field_selector(text, fields=ANY)
        assert str(selector) == canonical
        assert parse_field_selector(canonical, fields=ANY) == selector
        assert selector.empty is (canonical == "")

    def test_value_is_unescaped(self) -> None:
        (requirement,) = parse_field_selector(r"a!=x\,y\=z\\", fields=["a"]).requirements
        assert requirement == ("a", Operator.NOT_EQUALS, r"x,y=z" + "\\")

    @pytest.mark.parametrize(
        ("text", "position", "reason"),
        [
            ("a", 0, "invalid selector: 'a'; can't understand 'a'"),
            ("b=1,a", 4, "invalid selector: 'b=1,a'; can't understand 'a'"),
            ("a>1", 0, "invalid selector: 'a>1'; can't understand 'a>1'"),
            ("a=1, ", 4, "invalid selector: 'a=1, '; can't understand ' '"),
            ("a=b=c", 3, "invalid field selector: unescaped character in value: 61"),
            ("a===b", 3, "invalid field selector: unescaped character in value: 61"),
            ("a!==b", 3, "invalid field selector: unescaped character in value: 61"),
            ("a=1\\", 3, "invalid field selector: invalid escape sequence: \\"),
            (r"b=2,a=\1", 6, r"invalid field selector: invalid escape sequence: \1"),
            ("a=\\\n", 2, "invalid field selector: invalid escape sequence: \\\n"),
            ("a=\\😀", 2, "invalid field selector: invalid escape sequence: \\😀"),
            ("b=\\x,a=\\y", 7, "invalid field selector: invalid escape sequence: \\y"),
        ],
    )
    def test_text_is_refused_in_gos_words(self, text: str, position: int, reason: str) -> None:
        error = refused(text, fields=ANY)
        assert (error.position, error.reason, error.text) == (position, reason, text)

    @pytest.mark.parametrize("value", [None, b"a=1", {"a": "1"}])
    def test_only_a_string_is_parsed(self, value: Any) -> None:
        with pytest.raises(TypeError, match="a field selector is a str, not"):
            parse_field_selector(value)

    @pytest.mark.parametrize("unit", ["a", "\\", ",", "=", "a=\\,", "\ud800"])
    def test_five_megabytes_are_refused_in_linear_time(self, unit: str) -> None:
        """Quadratic time would take hours, and fail by the time limit of each test."""
        error = refused(unit * (5_000_000 // len(unit)) + ",a")
        error.reason.encode()

    def test_many_terms_are_read_in_linear_time(self) -> None:
        text = ",".join(f"a={number}" for number in range(100_000))
        assert len(parse_field_selector(text, fields=["a"]).requirements) == 100_000


class TestFields:
    @pytest.mark.parametrize(
        ("text", "label", "position"),
        [
            ("spec.host=n", "spec.host", 0),
            ("metadata.name=a,metadata.uid!=b", "metadata.uid", 16),
            (" spec.nodeName=n", " spec.nodeName", 0),
            ("=n", "", 0),
            ("\ud800=n", "\ufffd", 0),
        ],
    )
    def test_unsupported_field_is_refused_with_those_supported(
        self, text: str, label: str, position: int
    ) -> None:
        error = refused(text)
        assert error.position == position
        assert error.reason.startswith(
            f"field label not supported: {label} (supported: metadata.name"
        )
        assert all(path in error.reason for path in POD_FIELDS)

    def test_other_resources_have_name_and_namespace(self) -> None:
        selector = parse_field_selector("metadata.name=a", fields=METADATA_FIELDS)
        assert selector.matches({"metadata": {"name": "a"}})
        assert (
            "(supported: metadata.name, metadata.namespace)"
            in refused("spec.nodeName=a", fields=METADATA_FIELDS).reason
        )

    def test_caller_declares_paths(self) -> None:
        selector = parse_field_selector("spec.a.b=1,spec.on=true", fields={"spec.a.b", "spec.on"})
        assert selector.matches({"spec": {"a": {"b": 1}, "on": True}})
        assert not selector.matches({"spec": {"a": {"b": 2}, "on": True}})

    def test_caller_declares_how_to_read(self) -> None:
        fields = {**METADATA_FIELDS, "first": lambda obj: str(obj["items"][0])}
        assert parse_field_selector("first=x", fields=fields).matches({"items": ["x"]})

    def test_field_of_a_mapping_of_getters_may_be_all_that_is_supported(self) -> None:
        assert "supported: only)" in refused("a=b", fields=["only"]).reason


class TestMatches:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("metadata.name", "web-1"),
            ("metadata.namespace", "shop"),
            ("spec.nodeName", "node-1"),
            ("spec.restartPolicy", "Always"),
            ("spec.schedulerName", "default-scheduler"),
            ("spec.serviceAccountName", "web"),
            ("spec.hostNetwork", "true"),
            ("status.phase", "Running"),
            ("status.podIP", "10.0.0.1"),
            ("status.nominatedNodeName", "node-2"),
        ],
    )
    def test_each_pod_field_is_compared(self, path: str, value: str) -> None:
        assert parse_field_selector(f"{path}={value}").matches(POD)
        assert not parse_field_selector(f"{path}!={value}").matches(POD)
        assert not parse_field_selector(f"{path}={value}x").matches(POD)

    @pytest.mark.parametrize(
        "obj",
        [
            {},
            {"spec": None},
            {"spec": {"nodeName": None}},
            {"spec": {"nodeName": ""}},
            {"spec": "text"},
            {"spec": []},
        ],
    )
    def test_missing_field_compares_as_empty(self, obj: dict[str, Any]) -> None:
        assert parse_field_selector("spec.nodeName=").matches(obj)
        assert parse_field_selector("spec.nodeName!=n").matches(obj)
        assert not parse_field_selector("spec.nodeName!=").matches(obj)

    def test_host_network_is_false_where_left_out(self) -> None:
        assert parse_field_selector("spec.hostNetwork=false").matches({})

    @pytest.mark.parametrize(
        "status", [{"podIP": "1.2.3.4"}, {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "::1"}]}]
    )
    def test_pod_ip_is_the_first_of_pod_ips_where_left_out(self, status: dict[str, Any]) -> None:
        """The API server fills in whichever of the two is missing."""
        assert parse_field_selector("status.podIP=1.2.3.4").matches({"status": status})

    @pytest.mark.parametrize(
        "pod",
        [
            *({"status": odd, "spec": odd, "metadata": odd} for odd in ODD),
            *({"status": {"podIPs": odd}} for odd in (*ODD, {"a": 1}, [None], [[]])),
        ],
        ids=str,
    )
    def test_field_of_an_odd_object_is_empty(self, pod: Any) -> None:
        """Dumps are edited by hand; what a field cannot be read from does not have it."""
        for path in POD_FIELDS:
            value = "false" if path == "spec.hostNetwork" else ""
            assert parse_field_selector(f"{path}={value}").matches(pod), path

    @pytest.mark.parametrize(
        "status", [None, {}, {"podIPs": []}, {"podIPs": None}, {"podIPs": [{}]}]
    )
    def test_pod_without_ip_has_an_empty_one(self, status: Any) -> None:
        assert parse_field_selector("status.podIP=").matches({"status": status})

    def test_all_requirements_must_hold(self) -> None:
        selector = parse_field_selector("spec.nodeName=node-1,status.phase!=Failed")
        assert selector.matches(POD)
        assert not selector.matches({**POD, "status": {"phase": "Failed"}})

    def test_contradiction_matches_nothing(self) -> None:
        assert not parse_field_selector("metadata.name=a,metadata.name=b").matches(POD)


class TestFieldSelector:
    def test_equal_texts_give_equal_selectors(self) -> None:
        one = parse_field_selector("status.phase=a,spec.nodeName=b")
        other = parse_field_selector("spec.nodeName==b,,status.phase=a")
        assert one == other
        assert hash(one) == hash(other)
        assert repr(one) == "FieldSelector('spec.nodeName=b,status.phase=a')"
        assert one != parse_field_selector("spec.nodeName=b")
