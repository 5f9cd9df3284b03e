"""The language as tables, one file a group of sections: the source of the reference, the checks and the tests."""
