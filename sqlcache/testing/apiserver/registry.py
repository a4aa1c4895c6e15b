"""Reads and writes of objects: the rules of their kinds between the requests and the storage.

Promises
- A write that is refused changes nothing.
- A write that changes nothing keeps the resourceVersion, and no watch hears of it.

Elsewhere: requests and answers (http), lists (listing), watches (watching), the rules (kinds).
Source: apiserver registry/generic/registry store.go, registry/rest create.go, update.go.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import orjson

from sqlcache.objects import Object
from sqlcache.testing.apiserver import deletion, names, status
from sqlcache.testing.apiserver.deletion import DeleteOptions
from sqlcache.testing.apiserver.kinds.base import carry
from sqlcache.testing.apiserver.resources import Resource
from sqlcache.testing.apiserver.schema import conform
from sqlcache.testing.apiserver.status import Cause
from sqlcache.testing.apiserver.storage import Record, Storage

Change: TypeAlias = Callable[[Object], Object]

_FIRST_IN_METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_SERVERS_OWN = (  # of the metadata: an update cannot change them
    "uid",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_GENERATE_TRIES = 8


def full_body(resource: Resource, body: bytes) -> bytes:
    """Return an object's bytes with kind and apiVersion, from its bytes in a list."""
    if resource.custom:
        return body
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.group_version}",'
    return head.encode() + body[1:]


def decode(resource: Resource, record: Record) -> Object:
    """Return a new object, with kind and apiVersion."""
    obj: Object = orjson.loads(full_body(resource, record.body))
    return obj


def metadata_body(resource: Resource, body: bytes) -> bytes:
    """Return the PartialObjectMetadata of an object from its bytes in a list."""
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": orjson.loads(body)["metadata"],
    }
    return orjson.dumps(partial)


def make_record(resource: Resource, obj: Object, rv: int | None) -> Record:
    """Return the record of an object.

    Args:
        resource: of the object.
        obj: it gets the resourceVersion, and is not kept.
        rv: None leaves the field out, as a dry run of a create does.
    """
    meta = obj["metadata"]
    meta.pop("resourceVersion", None)
    if rv is not None:
        meta["resourceVersion"] = str(rv)
    ordered = {name: meta[name] for name in _FIRST_IN_METADATA if name in meta}
    obj["metadata"] = {**ordered, **meta}
    if resource.custom:
        body = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
    else:
        body = {name: part for name, part in obj.items() if name not in ("kind", "apiVersion")}
    namespace = meta.get("namespace", "")
    return Record(
        key=resource.key(namespace, meta["name"]),
        namespace=namespace,
        name=meta["name"],
        rv=rv or 0,
        body=orjson.dumps(body),
        labels=dict(meta.get("labels") or {}),
        fields=tuple(read(obj) for read in resource.fields.values()),
    )


def timestamp(in_s: int = 0) -> str:
    """Return the time in so many seconds as the server writes it."""
    return (datetime.now(UTC) + timedelta(seconds=in_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Registry:
    """The objects of one server, read and written as its clients do."""

    def __init__(self, storage: Storage, namespaces: Resource) -> None:
        """Take where the objects are.

        Args:
            storage: of all objects.
            namespaces: the resource that says in which namespaces objects can be made.
        """
        self.storage = storage
        self._namespaces = namespaces

    def record(self, resource: Resource, namespace: str, name: str) -> Record:
        """Return an object.

        Raises:
            ApiError: 404.
        """
        record = self.storage.get(resource, resource.key(namespace, name))
        if record is None:
            raise status.not_found(resource, name)
        return record

    def _read(self, resource: Resource, record: Record) -> Object:
        """Return an object with the defaults that one loaded as it was may lack."""
        obj = decode(resource, record)
        resource.strategy.default(obj)
        return obj

    def create(
        self, resource: Resource, namespace: str, obj: Object, *, dry_run: bool = False
    ) -> Record:
        """Add an object that `prepare` has made fit its kind; it is changed.

        Raises:
            ApiError: 400, 403, 404, 409, 422 or 500, as the API server.
        """
        _claim_namespace(resource, namespace, obj)
        with self.storage.lock:
            self._check_namespace(resource, namespace, obj["metadata"].get("name", ""))
            return self._create(resource, obj, dry_run)

    def _create(self, resource: Resource, obj: Object, dry_run: bool) -> Record:
        meta = obj["metadata"]
        asked_rv = meta.pop("resourceVersion", "")
        _stamp(resource, meta)
        generated = not meta.get("name") and bool(meta.get("generateName"))
        if generated:
            meta["name"] = self._free_name(resource, meta)
        resource.strategy.default(obj)
        resource.strategy.prepare_create(obj)
        _refuse(resource, meta.get("name", ""), _create_causes(resource, obj))
        if str(asked_rv).isdecimal() and int(asked_rv):
            raise status.internal("resourceVersion should not be set on objects to be created")
        if self.storage.get(resource, resource.key(meta.get("namespace", ""), meta["name"])):
            raise status.already_exists(resource, meta["name"])
        if dry_run:
            return make_record(resource, obj, None)
        return self.storage.put(resource, lambda rv: make_record(resource, obj, rv))

    def _free_name(self, resource: Resource, meta: Mapping[str, Any]) -> str:
        for _ in range(_GENERATE_TRIES):
            name = names.generate(meta["generateName"])
            if not self.storage.get(resource, resource.key(meta.get("namespace", ""), name)):
                break
        return name

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        record = self.record(self._namespaces, "", namespace)
        if "deletionTimestamp" in decode(self._namespaces, record)["metadata"]:
            why = (
                f"unable to create new content in namespace {namespace}"
                " because it is being terminated"
            )
            cause = Cause(
                "NamespaceTerminating",
                "metadata.namespace",
                f"namespace {namespace} is being terminated",
            )
            raise status.forbidden(resource, name, why, [cause])

    def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> tuple[Record, bool]:
        """Put an object in the place of the one of that name.

        Returns:
            The new object, and whether it was made rather than replaced.

        Raises:
            ApiError: as the API server.
        """
        _check_names(resource, namespace, name, obj)
        with self.storage.lock:
            existing = self.storage.get(resource, resource.key(namespace, name))
            if existing is None and resource.strategy.create_on_update and not subresource:
                obj["metadata"].pop("resourceVersion", None)
                return self.create(resource, namespace, obj, dry_run=dry_run), True
            updated = self.update(
                resource, namespace, name, lambda _: obj, subresource=subresource, dry_run=dry_run
            )
            return updated, False

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Record:
        """Change an object.

        Args:
            resource: of the object.
            namespace: of the object.
            name: of the object.
            change: makes the new object from the old one; it has been made fit its kind.
            subresource: "", "status" or "finalize".
            dry_run: say what would be, change nothing.

        Raises:
            ApiError: as the API server.
        """
        with self.storage.lock:
            record = self.record(resource, namespace, name)
            old = self._read(resource, record)
            new = change(copy.deepcopy(old))
            _check_names(resource, namespace, name, new)
            _check_version(resource, new, old)
            self._carry_over(resource, new, old, subresource)
            _refuse(resource, name, _update_causes(resource, new, old))
            if new == old:
                return record
            strategy = resource.strategy
            if "generation" in old["metadata"] and strategy.raises_generation(new, old):
                new["metadata"]["generation"] = old["metadata"]["generation"] + 1
            if dry_run:
                return make_record(resource, new, record.rv)
            if deletion.ends(strategy, new):
                last = make_record(resource, new, record.rv)
                self._remove(resource, record)
                return last
            return self.storage.put(resource, lambda rv: make_record(resource, new, rv))

    def _carry_over(self, resource: Resource, new: Object, old: Object, subresource: str) -> None:
        for field in _SERVERS_OWN:
            carry(new["metadata"], old["metadata"], field)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new["kind"], new["apiVersion"] = old["kind"], old["apiVersion"]
        strategy = resource.strategy
        if subresource == "status":
            strategy.default(new)
            strategy.prepare_status(new, old)
        elif subresource == "finalize":
            finalizers = new.get("spec", {}).get("finalizers", [])
            for field in {*new, *old}:
                carry(new, old, field)
            new["spec"] = {**old.get("spec", {}), "finalizers": finalizers}
            if not finalizers:
                del new["spec"]["finalizers"]
        else:
            strategy.prepare_update(new, old)
            strategy.default(new)

    def _remove(self, resource: Resource, record: Record) -> Record:
        """Remove an object; its last state is the stored one, with the resourceVersion of now."""
        obj = decode(resource, record)
        return self.storage.remove(resource, record.key, lambda rv: make_record(resource, obj, rv))

    def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Record, bool]:
        """Delete an object, or begin to.

        Returns:
            Its last or present state, and whether it is gone.

        Raises:
            ApiError: 403, 404 or 409.
        """
        with self.storage.lock:
            record = self.record(resource, namespace, name)
            old = self._read(resource, record)
            if resource is self._namespaces and name in _IMMORTAL:
                raise status.forbidden(resource, name, "this namespace may not be deleted")
            _check_preconditions(resource, old, options)
            plan = deletion.begin(resource.strategy, old, options, timestamp)
            if options.dry_run:
                return make_record(resource, plan.obj, record.rv), plan.gone
            if plan.obj != old:
                record = self.storage.put(resource, lambda rv: make_record(resource, plan.obj, rv))
            return (self._remove(resource, record), True) if plan.gone else (record, False)


def prepare(resource: Resource, obj: Object) -> list[str]:
    """Make an object fit its kind, in place.

    Returns:
        The paths of the fields dropped, because the kind does not have them.

    Raises:
        FieldTypeError: a field has the wrong type.
    """
    obj["kind"], obj["apiVersion"] = resource.kind, resource.group_version
    unknown = conform(obj, "" if resource.custom else resource.kind)
    meta = obj.setdefault("metadata", {})
    for field in ("managedFields", "selfLink"):
        meta.pop(field, None)
    return unknown


def _claim_namespace(resource: Resource, namespace: str, obj: Object) -> None:
    meta = obj["metadata"]
    if meta.get("namespace", namespace) != (namespace if resource.namespaced else ""):
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta.pop("namespace", None)
    if resource.namespaced:
        meta["namespace"] = namespace


def _stamp(resource: Resource, meta: Object) -> None:
    for field in _SERVERS_OWN:
        meta.pop(field, None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = timestamp()
    if resource.strategy.starts_generation:
        meta["generation"] = 1


def _refuse(resource: Resource, name: str, causes: list[Cause]) -> None:
    if causes:
        raise status.invalid(resource.kind, resource.group, name, causes)


def _create_causes(resource: Resource, obj: Object) -> list[Cause]:
    meta = obj["metadata"]
    name = meta.get("name", "")
    if not name:
        return [status.required("metadata.name", "name or generateName is required")]
    wrong = resource.strategy.name_errors(name)
    causes = [status.invalid_value("metadata.name", name, error) for error in wrong]
    return causes + names.metadata_causes(meta) + resource.strategy.validate(obj)


def _update_causes(resource: Resource, new: Object, old: Object) -> list[Cause]:
    strategy = resource.strategy
    causes = names.metadata_causes(new["metadata"]) * strategy.metadata_checks
    if "deletionTimestamp" in old["metadata"]:
        known = old["metadata"].get("finalizers") or []
        added = [each for each in new["metadata"].get("finalizers") or [] if each not in known]
        if added:
            words = (
                "no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{', '.join(map(_quoted, added))}}}"
            )
            causes.append(status.forbidden_value("metadata.finalizers", words))
    return causes + strategy.validate(new) + strategy.validate_update(new, old)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _check_names(resource: Resource, namespace: str, name: str, obj: Object) -> None:
    _claim_namespace(resource, namespace, obj)
    named = obj["metadata"].get("name", "")
    if not named:
        raise status.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable:"
            " name must be provided"
        )
    if named != name:
        raise status.bad_request(
            f"the name of the object ({named}) does not match the name on the URL ({name})"
        )


def _check_version(resource: Resource, new: Object, old: Object) -> None:
    """Refuse an update that names another object or an old version of this one."""
    name, meta = old["metadata"]["name"], new["metadata"]
    asked = str(meta.get("resourceVersion", "")) or "0"
    if not asked.isdecimal():
        raise status.internal(f'strconv.ParseUint: parsing "{asked}": invalid syntax')
    if int(asked) == 0 and not resource.strategy.unconditional_update:
        words = "must be specified for an update"
        cause = status.invalid_value("metadata.resourceVersion", 0, words)
        raise status.invalid(resource.plural, resource.group, name, [cause])
    uid = meta.get("uid")
    if uid and uid != old["metadata"]["uid"]:
        namespace = old["metadata"].get("namespace", "")
        raise status.conflict(
            resource,
            name,
            f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/"
            f"{resource.key(namespace, name)}, ResourceVersion: 0, AdditionalErrorMsg: Precondition"
            f" failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}",
        )
    if int(asked) and asked != old["metadata"]["resourceVersion"]:
        raise status.modified(resource, name)


def _check_preconditions(resource: Resource, obj: Object, options: DeleteOptions) -> None:
    meta = obj["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record"
            f" ({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise status.conflict(resource, meta["name"], why, resource.kind)
    if options.rv is not None and options.rv != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({options.rv}) does not match the"
            f" ResourceVersion in record ({meta['resourceVersion']})."
            " The object might have been modified"
        )
        raise status.conflict(resource, meta["name"], why, resource.kind)
