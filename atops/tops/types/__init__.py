"""The constants, enumerations and structs of the public header."""
