"""The bench: what each backend costs on the same pods and selectors, in one run.

Flow: `scenarios` say which workloads a run has; `runner` gives each (backend, workload) a process
of its own (`child`), compares the answers of all backends, then measures them in turn; `results`
hold every sample; `tables`, `sentences` and `report` show them.

Promises
- No answer, no number: a backend whose answers differ from the `dict` scan's is not timed.
- All backends see the same pods, selectors and events, made from one seed.
- A child that dies, hangs or runs out of memory becomes a row that says so.

Elsewhere: the command line (cli.bench), the method in words (bench/README.md), the results of
full runs (bench/results).
"""
