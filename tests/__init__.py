"""The tests, a package so that no other package of this name is imported in their place."""
