// The language itself is there already; this brings the host side of the runtime, and what published kernels use.
#pragma once

#include "atops/published.h"
#include "tops/host_api.h"
