// Builds that find reads and writes behind the ends of memory: only the allocator's blocks have
// ends that are guarded.
#pragma once

namespace evoq {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kGuardsEnds = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kGuardsEnds = true;
#else
inline constexpr bool kGuardsEnds = false;
#endif
#else
inline constexpr bool kGuardsEnds = false;
#endif

}  // namespace evoq
