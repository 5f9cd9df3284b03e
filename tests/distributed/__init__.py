"""Pipelines and checks on real clusters of this machine."""
