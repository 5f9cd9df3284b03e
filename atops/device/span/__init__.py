"""Device memory as a kernel thread sees it.

span             the Span: numpy's operations on device memory, each access checked and reported
numpy_functions  which numpy functions and methods read, view or write
"""
