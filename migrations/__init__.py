"""Alembic migrations of the cache schema; installed as `sqlcache.migrations`."""
