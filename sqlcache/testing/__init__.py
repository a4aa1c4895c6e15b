"""What tests of stores and controllers need, for this project and for yours.

| module | needs | gives |
|---|---|---|
| `factories` | | pods, events and short descriptions of results |
| `contract` | pytest | `StoreContract`: everything that a backend must do |
| `strategies` | hypothesis | labels, selectors and pods |

Only modules of this package import pytest or hypothesis, and each only when it is imported itself.

A backend of your own is tested by one class, see `sqlcache.testing.contract`.
"""

from sqlcache.testing.factories import event, keys, names, pod

__all__ = ["event", "keys", "names", "pod"]
