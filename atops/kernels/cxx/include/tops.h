// The language itself is there already; this brings the host side of the runtime.
#pragma once

#include "tops/host_api.h"
