"""Compiled programs: images, modules, attributes and names."""
