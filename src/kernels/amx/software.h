// The tiles of AMX in plain C++ (config.h): what kernels are tested on where no processor has them,
// and where sanitizers see each access. Aborts (EVOQ_CHECK) where the hardware raises an exception:
// a configuration that is none, tiles that are not configured, sizes that do not fit each other.
#pragma once

#include "kernels/amx/config.h"

namespace evoq {

// What a thread, or all of them, asked of the software's tiles.
struct AmxCounts {
  int64_t configurations = 0, releases = 0, loads = 0, stores = 0, products = 0;
};

// Of all threads, without those of tiles that a thread has not released yet.
AmxCounts AmxSoftwareCounts();

// The functions behind AmxSoftware, with the numbers of tiles.
namespace amx_software {
void Configure(const AmxConfig& config);
void Release();
void Load(int tile, const void* from, int64_t stride);
void Store(int tile, void* to, int64_t stride);
void Zero(int tile);
void DotU8S8(int c, int a, int b);
void DotS8S8(int c, int a, int b);
void DotBf16(int c, int a, int b);
}  // namespace amx_software

namespace {

struct AmxSoftware {
  static void Configure(const AmxConfig& config) { amx_software::Configure(config); }
  static void Release() { amx_software::Release(); }
  template <int kTile>
  static void Load(const void* from, int64_t stride) {
    amx_software::Load(kTile, from, stride);
  }
  template <int kTile>
  static void LoadPassing(const void* from, int64_t stride) {
    amx_software::Load(kTile, from, stride);
  }
  template <int kTile>
  static void Store(void* to, int64_t stride) {
    amx_software::Store(kTile, to, stride);
  }
  template <int kTile>
  static void Zero() {
    amx_software::Zero(kTile);
  }
  template <int kC, int kA, int kB>
  static void DotU8S8() {
    amx_software::DotU8S8(kC, kA, kB);
  }
  template <int kC, int kA, int kB>
  static void DotS8S8() {
    amx_software::DotS8S8(kC, kA, kB);
  }
  template <int kC, int kA, int kB>
  static void DotBf16() {
    amx_software::DotBf16(kC, kA, kB);
  }
};

}  // namespace
}  // namespace evoq
