// The program may include it; what it asks for is there already.
#pragma once
