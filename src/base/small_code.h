// Functions that run once for a model or a size, where bytes count more than speed: of what is
// inlined into them too.
#pragma once

#if defined(__clang__)
#define EVOQ_SMALL_CODE [[gnu::cold]] [[clang::minsize]]
#else
#define EVOQ_SMALL_CODE [[gnu::cold]]
#endif
