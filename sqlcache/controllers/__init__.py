"""Controllers on informers, listers and work queues.

Shared: what they ask about pods (`pods`), services (`services`) and addresses (`ips`), pod events
(`podevents`), queue and workers (`controller`), trigger times (`triggers`), Events (`events`).

Controllers know a store as an Indexer or a Lister. Which backend answers is up to whoever makes the
informers, for instance `SharedInformerFactory(list_watch, store=lambda r: open_store(backend, r))`.

Source: pkg/controller/endpoint, pkg/controller/endpointslice, staging/src/k8s.io/endpointslice.
"""
