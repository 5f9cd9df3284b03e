"""What all C-style functions share.

call        makes a function and its awaitable twin of an implementation
codes       errors as codes, and back
arguments   numbers, words, texts and lists, read and checked
handles     ints that stand for objects
pointers    ints that name bytes
aliases     addresses that stand for bytes elsewhere
context     the current device and stream
last_error  the last error of a task or thread
waiting     a wait, written once for both forms
"""
