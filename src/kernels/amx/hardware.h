// The tiles of a processor with AMX (config.h), for files that run where Isa::kAmx is there only.
// In assembly, since GCC's functions want literal numbers, and its loads do not say that they read
// memory.
#pragma once

#include "kernels/amx/config.h"

namespace evoq {
namespace {

struct AmxHardware {
  static void Configure(const AmxConfig& config) {
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  static void Release() { __asm__ volatile("tilerelease" : : : "memory"); }
  template <int kTile>
  [[gnu::always_inline]] static void Load(const void* from, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void LoadPassing(const void* from, int64_t stride) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(from), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void Store(void* to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(to), "r"(stride), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void Zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void DotU8S8() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void DotS8S8() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
  template <int kC, int kA, int kB>
  [[gnu::always_inline]] static void DotBf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace evoq
