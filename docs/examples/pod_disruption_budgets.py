"""Logs the names of the pods of each PodDisruptionBudget, and again whenever they may be others."""

import logging
import threading
from contextlib import ExitStack, closing

from sqlcache import PodLister, open_store
from sqlcache.client import Resource
from sqlcache.client.transport import ApiListWatch, connect
from sqlcache.controllers.controller import Controller
from sqlcache.errors import NotFoundError
from sqlcache.informer import HandlerFuncs, SharedInformerFactory
from sqlcache.lister import Lister
from sqlcache.objects import DeletedFinalStateUnknown, split_meta_namespace_key
from sqlcache.selectors import label_selector

PODS = Resource("", "v1", "pods")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")


class BudgetController(Controller):
    """Reports the pods of budgets."""

    def __init__(self, budgets, pods, report):
        super().__init__("budget", [budgets, pods])  # a queue "budget", and workers that sync
        self.budgets = Lister(budgets.store, "poddisruptionbudget")
        self.pods, self.report = PodLister(pods.store), report
        self.watch_keys(budgets)
        changed = HandlerFuncs(lambda pod, _: self.pod(pod), self.pod, self.pod)
        self.watch(pods, changed)  # on_add, on_update, on_delete

    def pod(self, *states):
        """Queue the budgets that select a pod as it was, or as it is."""
        for pod in states:
            last = pod.obj if isinstance(pod, DeletedFinalStateUnknown) else pod
            for budget in self.budgets.selecting(last) if last else ():
                self.enqueue(budget)

    def sync(self, key):
        """Report the pods of a budget; None if it is gone. What it raises brings it here again."""
        namespace, name = split_meta_namespace_key(key)
        try:
            budget = self.budgets.by_namespace(namespace).get(name)
        except NotFoundError:
            self.report(key, None)
            return
        found = self.pods.pods(namespace).list(label_selector(budget))  # none: nothing; {}: all
        self.report(key, sorted(pod["metadata"]["name"] for pod in found))


def run(report, stop, backend=None, **where):
    """Report to a function until an event is set; `where` is kubeconfig= and context=."""
    client = connect(**where)
    with ExitStack() as stack:
        watched = {
            each.plural: stack.enter_context(closing(ApiListWatch(client, each)))
            for each in (BUDGETS, PODS)
        }
        factory = SharedInformerFactory(
            watched.__getitem__,
            store=lambda plural: open_store(backend, plural, selector_func=label_selector),
        )
        budgets, pods = map(stack.enter_context(factory).informer, watched)
        stack.enter_context(BudgetController(budgets, pods, report))
        factory.start()
        stop.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    run(lambda key, pods: logging.info("%s: %s", key, pods), threading.Event())
