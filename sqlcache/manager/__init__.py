"""What a controller manager has around its controllers; `sqlcache run` is made of it.

    with stop_on_signals() as stop, factory:
        elector = LeaderElector(leases, namespace="shop", name="mine", identity=identity())
        Manager(api, factory, [EndpointsController(api, ...)], elector=elector).run(stop)

| module | has |
|---|---|
| manager.py | `Manager`: lead, work, drain, release |
| election.py | `LeaderElector`: one of several processes, by a Lease |
| serving.py | `HttpEndpoints`: /healthz, /readyz, /metrics |
| dryrun.py, diffs.py | writes that are shown and not made |
| catalog.py | the controllers that come with this package, by name |
| signals.py, logs.py, interpreter.py | SIGTERM, log lines, settings of the Python process |

Source: kube-controller-manager's app package; client-go tools/leaderelection; apiserver healthz.
"""

from sqlcache.manager.election import LeaderElector, identity
from sqlcache.manager.manager import Manager
from sqlcache.manager.serving import HttpEndpoints
from sqlcache.manager.signals import stop_on_signals

__all__ = ["HttpEndpoints", "LeaderElector", "Manager", "identity", "stop_on_signals"]
