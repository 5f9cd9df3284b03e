"""The C-style functions: a folder a group of sections of the TOPS Runtime API, a file a family.

device/      2.1 to 2.3
stream/      2.4, 2.5 and IPC
memory/      2.6 and 2.7
module/      2.8 to 2.10
executable/  executables (2.11)
extension/   the rest of 2.11
"""
