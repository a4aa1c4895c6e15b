"""Logs the names of the pods of each PodDisruptionBudget, and again whenever they may be others."""

import logging
import threading
from contextlib import ExitStack, closing

from sqlcache import PodLister, open_store
from sqlcache.client.transport import ApiListWatch, Resource, connect
from sqlcache.controllers.controller import Controller
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.lister import Lister
from sqlcache.selectors import label_selector

PODS, BUDGETS = Resource("", "v1", "pods"), Resource("policy", "v1", "poddisruptionbudgets")


class BudgetController(Controller):
    """Reports the pods of budgets."""

    def __init__(self, budgets, pods, report):
        super().__init__("budget", [budgets, pods])  # has a queue, and workers that call sync
        self.store, self.pods, self.report = budgets.store, PodLister(pods.store), report
        self.budgets = Lister(budgets.store, "budget")
        self.watch_keys(budgets)
        self.watch(pods, HandlerFuncs(lambda pod, _: self.pod(pod), self.pod, self.pod))

    def pod(self, *states):
        """Queue the budgets that select a pod as it was, or as it is."""
        for pod in (getattr(each, "obj", each) for each in states):  # of tombstones, what is known
            for budget in self.budgets.selecting(pod) if pod else ():
                self.enqueue(budget)

    def sync(self, key):
        """Report the pods of a budget, None if it is gone; if this raises, it comes again."""
        budget = self.store.get_by_key(key)
        if budget is None:
            return self.report(key, None)
        pods = self.pods.pods(budget["metadata"]["namespace"])
        found = pods.list(label_selector(budget))  # null selects nothing, {} all
        return self.report(key, sorted(pod["metadata"]["name"] for pod in found))


def run(report, stop, backend=None, **where):
    """Report until an event is set; `where` is kubeconfig= and context=."""
    client = connect(**where)
    with ExitStack() as stack:
        informers = []
        for each in (BUDGETS, PODS):
            watch = stack.enter_context(closing(ApiListWatch(client, each)))
            store = open_store(backend, each.plural, selector_func=label_selector)
            informers.append(SharedInformer(watch, stack.enter_context(store)))
        for each in (*informers, BudgetController(*informers, report)):
            stack.enter_context(each)
        stop.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    run(lambda key, pods: logging.info("%s: %s", key, pods), threading.Event())
