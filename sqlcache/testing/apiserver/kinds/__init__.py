"""The rules of each kind: defaults, what the server decides, what must not change.

| module | kinds |
|---|---|
| `base` | what all have in common |
| `pod` | pods |
| `service` | services |
| `endpoints` | endpoints, endpointslices |
| `cluster` | nodes, namespaces, events, leases, custom resources |
"""
