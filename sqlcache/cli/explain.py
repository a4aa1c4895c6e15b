"""`sqlcache explain`: how a selector is answered, and what it costs."""

from __future__ import annotations

import click

from sqlcache.cli._output import write, write_json
from sqlcache.cli._resources import is_namespaced
from sqlcache.cli._source import (
    namespace_options,
    open_source,
    resource_option,
    selector_option,
    source_options,
)
from sqlcache.objects import ALL_NAMESPACES
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
    db: str | None,
    dump: str | None,
    namespace: str,
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
    everywhere = all_namespaces or not is_namespaced(resource)
    with open_source(db, dump, resource) as store:
        explanation = store.explain(ALL_NAMESPACES if everywhere else namespace, selector)
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
    }
    lines = [f"{f'{name}:':<20}{value}" for name, value in facts.items()]
    for title, steps in (("Plan", explanation.plan), ("SQL", explanation.sql)):
        if steps:
            lines += [f"{title}:", *(f"  {step}" for step in steps)]
    return "".join(f"{line}\n" for line in lines)
