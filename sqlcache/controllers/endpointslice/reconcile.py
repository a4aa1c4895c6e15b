"""Brings the slices of one service to what they should be.

Flow, for each address type: desired endpoints by ports -> a plan of slices for each set of ports ->
a placeholder if there would be no slice at all -> hints -> writes.

Promises
- Each address type stands alone: what fails for one does not keep the other from being written.
- Within one, nothing is written after the first write that failed.
- A slice that would be deleted while another one is created is written over instead.

Elsewhere: which slices are looked at, and when (endpointslice.controller).
Source: endpointslice reconciler.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from sqlcache.client.api import NAMESPACE_TERMINATING, ObjectsApi
from sqlcache.controllers.endpointslice.desired import (
    EndpointSet,
    address_types,
    desired_endpoints,
)
from sqlcache.controllers.endpointslice.hints import set_hints, wants_topology_hints
from sqlcache.controllers.endpointslice.packing import Plan, pack
from sqlcache.controllers.endpointslice.ports import Ports, ports_of
from sqlcache.controllers.endpointslice.slices import (
    ENDPOINT_SLICES,
    AddressType,
    is_owned_by,
    is_placeholder,
    placeholder,
    with_name,
    with_trigger_time,
)
from sqlcache.controllers.endpointslice.topology import Notice, TopologyCache
from sqlcache.controllers.endpointslice.tracker import SliceTracker
from sqlcache.controllers.events import EventRecorder
from sqlcache.errors import (
    AggregateError,
    ApiDecodeError,
    ApiStatusError,
    NotFoundError,
    SliceWriteError,
)
from sqlcache.lister import Lister
from sqlcache.objects import Object, Objects, meta_namespace_key_func


class Reconciler:
    """Writes the slices of services. Not twice at once for the same service."""

    def __init__(
        self,
        api: ObjectsApi,
        nodes: Lister,
        *,
        tracker: SliceTracker,
        topology: TopologyCache,
        recorder: EventRecorder,
        max_endpoints: int,
    ) -> None:
        """Make a reconciler.

        Args:
            api: where slices are written.
            nodes: have the zones of endpoints.
            tracker: is told of each write.
            topology: shares out the endpoints of services that ask for it.
            recorder: takes Events about that.
            max_endpoints: that a slice is filled to.
        """
        self._api, self._nodes = api, nodes
        self._tracker, self._topology, self._recorder = tracker, topology, recorder
        self._max_endpoints = max_endpoints

    def reconcile(
        self,
        service: Object,
        pods: Iterable[Object],
        existing: Objects,
        trigger_time: str | None,
    ) -> None:
        """Make the slices of a service hold its endpoints, with as few writes as can be.

        Args:
            service: one with a selector.
            pods: those that it selects.
            existing: its slices as far as they are this controller's, and nobody deletes them.
            trigger_time: value of the annotation on what is written, None for none.

        Raises:
            AggregateError: pods are on unknown nodes (`MissingNodeError`), or writes failed
                (`SliceWriteError`). All that could be written is.
        """
        pods, key, node = list(pods), meta_namespace_key_func(service), cache(self._node)
        by_type: defaultdict[AddressType, Objects] = defaultdict(list)
        for each in existing:
            by_type[each["addressType"]].append(each)
        errors: list[Exception] = []
        types = address_types(service)
        unwanted = {name: slices for name, slices in by_type.items() if name not in types}
        for address_type in unwanted:
            self._topology.remove(key, address_type)
        for address_type in types:
            desired = desired_endpoints(service, pods, address_type, node)
            plan = self._plan(service, by_type[address_type], desired.by_ports, address_type)
            notices = self._set_hints(plan, service, address_type)
            errors += desired.missing
            try:
                self._write(plan, service, trigger_time)
            except SliceWriteError as error:
                errors.append(error)
            for notice in notices:
                self._recorder.event(service, *notice)
        for slices in unwanted.values():
            for each in slices:
                try:
                    self._delete(each, service, "error deleting")
                except SliceWriteError as error:
                    errors.append(error)
        if errors:
            raise AggregateError(errors)

    def _node(self, name: str) -> Object | None:
        try:
            return self._nodes.get(name)
        except NotFoundError:
            return None

    def _plan(
        self,
        service: Object,
        existing: Objects,
        desired: dict[Ports, EndpointSet],
        address_type: AddressType,
    ) -> Plan:
        plan = Plan()
        by_ports: defaultdict[Ports, Objects] = defaultdict(list)
        for each in existing:
            # A slice of a service of the same name that is gone is somebody's to be collected.
            slices = by_ports[ports_of(each)] if is_owned_by(each, service) else plan.delete
            slices.append(each)
        for ports, endpoints in desired.items():
            plan.add(
                pack(
                    by_ports.pop(ports, []),
                    endpoints,
                    service=service,
                    address_type=address_type,
                    ports=ports,
                    max_endpoints=self._max_endpoints,
                )
            )
        for slices in by_ports.values():
            plan.delete += slices
        if not (plan.create or plan.update or plan.unchanged):
            if len(plan.delete) == 1 and is_placeholder(plan.delete[0], service, address_type):
                plan.unchanged.append(plan.delete.pop())
            else:
                plan.create.append(placeholder(service, address_type))
        return plan

    def _set_hints(self, plan: Plan, service: Object, address_type: AddressType) -> list[Notice]:
        key = meta_namespace_key_func(service)
        if wants_topology_hints(service):
            return self._topology.set_hints(plan, key, address_type)
        set_hints(plan, service)
        return self._topology.stop_hints(key, address_type)

    def _write(self, plan: Plan, service: Object, trigger_time: str | None) -> None:
        _write_over_deleted(plan, service)
        namespace = service["metadata"].get("namespace") or ""
        # Of a service that is being deleted the slices are, too: do not race with that.
        for each in [] if service["metadata"].get("deletionTimestamp") else plan.create:
            body = with_trigger_time(each, trigger_time)
            try:
                with _writing("failed to create", "", service):
                    self._tracker.wrote(self._api.create(ENDPOINT_SLICES, namespace, body))
            except SliceWriteError as error:
                if _is_in_terminating_namespace(error.cause):
                    return  # would be refused again and again until the namespace is gone
                raise
        for each in plan.update:
            body = with_trigger_time(each, trigger_time)
            with _writing("failed to update", each["metadata"]["name"], service):
                self._tracker.wrote(self._api.update(ENDPOINT_SLICES, namespace, body))
        for each in plan.delete:
            self._delete(each, service, "failed to delete")

    def _delete(self, endpoint_slice: Object, service: Object, failed: str) -> None:
        namespace = service["metadata"].get("namespace") or ""
        name = endpoint_slice["metadata"]["name"]
        with _writing(failed, name, service):
            self._api.delete(ENDPOINT_SLICES, namespace, name)
        self._tracker.deleted(endpoint_slice)


def _write_over_deleted(plan: Plan, service: Object) -> None:
    """Turn pairs of a slice to be deleted and one to be created into updates."""
    kept = []
    for each in plan.delete:
        if plan.create and is_owned_by(each, service):
            plan.update.append(with_name(plan.create.pop(), each["metadata"]["name"]))
        else:
            kept.append(each)
    plan.delete = kept


@contextmanager
def _writing(failed: str, name: str, service: Object) -> Iterator[None]:
    """Say which write failed, if one does."""
    try:
        yield
    except (OSError, ApiDecodeError) as error:
        raise SliceWriteError(failed, name, meta_namespace_key_func(service), error) from error


def _is_in_terminating_namespace(error: Exception) -> bool:
    return isinstance(error, ApiStatusError) and error.has_cause(NAMESPACE_TERMINATING)
