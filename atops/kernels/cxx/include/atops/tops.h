// All of TOPS C++ as this emulator has it. Every program includes it before its own text.
#pragma once

#include "dte.h"
#include "functions.h"
#include "vector.h"
