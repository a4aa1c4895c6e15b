"""An indexed cache of Kubernetes objects for Python controllers."""
