// The host side of the runtime; the language itself is there already.
#pragma once

#include "tops/host_api.h"
