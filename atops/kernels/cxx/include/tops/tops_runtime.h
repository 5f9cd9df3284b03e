// The host side of the runtime, and what the chip's header brings along: all that tops.h does, and std::string.
#pragma once

#include <string>

#include "../tops.h"
