"""The DTE as kernels write it (TOPS C++, 8.7).

operations  each operation at once, asynchronous and configured
contexts    contexts, scopes and events
"""
