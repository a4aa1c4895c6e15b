"""What the bench measures, one module for each group of scenarios."""

from sqlcache.bench.scenarios.registry import NEEDS_FILE, SCENARIOS, Scenario, headlines, unnamed

__all__ = ["NEEDS_FILE", "SCENARIOS", "Scenario", "headlines", "unnamed"]
