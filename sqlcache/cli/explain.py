"""`sqlcache explain`: how a selector is answered, and what it costs."""

from __future__ import annotations

import click

from sqlcache.cli._options import namespace_options, resource_option, selector_option
from sqlcache.cli._output import write, write_json
from sqlcache.cli._source import Source, Wanted, source_options
from sqlcache.selectors import Selector
from sqlcache.store.api import Explanation


@click.command(short_help="Tell how a label selector is answered.")
@selector_option
@source_options
@namespace_options
@resource_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
def explain(
    selector: Selector,
    source: Source,
    namespace: str | None,
    all_namespaces: bool,
    resource: str,
    output: str,
) -> None:
    """Tell how a label selector is answered.

    Shows the term that the query starts from, how many objects that yields, how many match in the
    end, and the database's plan.

    \b
    Examples:
      sqlcache explain -l 'app=web,tier notin (a,b)' -n shop --db sqlite:///cluster.db
      sqlcache explain -l '!canary' -A --from pods.json -o json
    """
    with source.open(resource, Wanted(namespace, all_namespaces)) as found:
        explanation = found.store.explain(found.namespace, selector)
    if output == "json":
        write_json(explanation)
    else:
        write(_text(explanation))


def _text(explanation: Explanation) -> str:
    facts = {
        "Selector": explanation.selector or "<everything>",
        "Namespace": explanation.namespace or "<all>",
        "Backend": explanation.backend,
        "Starts from": f"{explanation.driving} (about {explanation.estimated} objects)",
        "Matched": f"{explanation.matched} objects",
        "Checked on objects": ", ".join(explanation.residual) or "<nothing>",
        **({"Without an index": ", ".join(explanation.unindexed)} if explanation.unindexed else {}),
    }
    lines = [f"{f'{name}:':<20}{value}" for name, value in facts.items()]
    for title, steps in (("Plan", explanation.plan), ("SQL", explanation.sql)):
        if steps:
            lines += [f"{title}:", *(f"  {step}" for step in steps)]
    return "".join(f"{line}\n" for line in lines)
