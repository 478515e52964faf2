// Runs code that was compiled for AMX where there is none: each of its instructions raises SIGILL,
// whose handler decodes it and asks the software's tiles. So what the compiler made of the
// hardware's unit is tested too. One at a time; threads that meet it are served.
#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <signal.h>
#include <ucontext.h>

#include <cstring>

#include "base/check.h"
#include "kernels/amx/software.h"

namespace evoq {

class AmxEmulator {
 public:
  AmxEmulator() {
    struct sigaction action = {};
    action.sa_sigaction = Handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;  // EVOQ_CHECK may abort in it
    EVOQ_CHECK(sigaction(SIGILL, &action, &before_) == 0);
  }
  ~AmxEmulator() { sigaction(SIGILL, &before_, nullptr); }
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

 private:
  // The register of this number of an instruction.
  static int64_t Register(const ucontext_t& context, int number) {
    static constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                        REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                        REG_R12, REG_R13, REG_R14, REG_R15};
    return context.uc_mcontext.gregs[kPlaces[number]];
  }

  // The operand in memory behind ModRM at `at`, which moves behind it: its address without the
  // index, and the index, which is a stride.
  struct Place {
    int64_t base, stride;
  };
  static Place Memory(const ucontext_t& context, const uint8_t*& at, bool more_index,
                      bool more_base) {
    const int mode = at[0] >> 6, rm = at[0] & 7;
    Place place = {0, 0};
    ++at;
    int base = rm;
    bool relative = false, none = false;
    if (rm == 4) {
      const uint8_t sib = *at++;
      base = sib & 7;
      const int index = (sib >> 3 & 7) + (more_index ? 8 : 0);
      if (index != 4) place.stride = Register(context, index) << (sib >> 6);
      none = mode == 0 && base == 5;
    } else {
      relative = mode == 0 && rm == 5;
    }
    if (!relative && !none) place.base = Register(context, base + (more_base ? 8 : 0));
    if (mode == 1) {
      place.base += static_cast<int8_t>(*at++);
    } else if (mode == 2 || relative || none) {
      int32_t offset;
      std::memcpy(&offset, at, sizeof(offset));
      at += sizeof(offset);
      place.base += offset;
      if (relative) place.base += reinterpret_cast<int64_t>(at);
    }
    return place;
  }

  // All are VEX.128 of the map 0F38 with W0 (Intel's Software Developer's Manual, volume 2).
  static void Handle(int, siginfo_t*, void* raw) {
    ucontext_t& context = *static_cast<ucontext_t*>(raw);
    const auto* const code = reinterpret_cast<const uint8_t*>(context.uc_mcontext.gregs[REG_RIP]);
    EVOQ_CHECK(code[0] == 0xc4 && (code[1] & 0x9f) == 0x82 && (code[2] & 0x84) == 0,
               "no instruction of AMX: {:02x} {:02x} {:02x} {:02x}", code[0], code[1], code[2],
               code[3]);
    const bool more_index = (code[1] & 0x40) == 0, more_base = (code[1] & 0x20) == 0;
    const int prefix = code[2] & 3, third = ~code[2] >> 3 & 15;  // none, 66, F3, F2
    const uint8_t opcode = code[3];
    const uint8_t* at = code + 4;
    const int reg = *at >> 3 & 7, rm = *at & 7;
    const bool in_registers = *at >> 6 == 3;
    namespace tiles = amx_software;
    if (in_registers) {
      ++at;
      if (opcode == 0x49 && prefix == 0 && reg == 0 && rm == 0) {
        tiles::Release();
      } else if (opcode == 0x49 && prefix == 3) {
        tiles::Zero(reg);
      } else if (opcode == 0x5e && prefix == 1) {
        tiles::DotU8S8(reg, rm, third);
      } else if (opcode == 0x5e && prefix == 3) {
        tiles::DotS8S8(reg, rm, third);
      } else if (opcode == 0x5c && prefix == 2) {
        tiles::DotBf16(reg, rm, third);
      } else {
        EVOQ_CHECK(false, "opcode {:02x}, prefix {}", opcode, prefix);
      }
    } else {
      const Place place = Memory(context, at, more_index, more_base);
      auto* const memory = reinterpret_cast<void*>(place.base);
      if (opcode == 0x49 && prefix == 0 && reg == 0) {
        AmxConfig config;
        std::memcpy(&config, reinterpret_cast<void*>(place.base + place.stride), sizeof(config));
        tiles::Configure(config);
      } else if (opcode == 0x4b && (prefix == 3 || prefix == 1)) {
        tiles::Load(reg, memory, place.stride);
      } else if (opcode == 0x4b && prefix == 2) {
        tiles::Store(reg, memory, place.stride);
      } else {
        EVOQ_CHECK(false, "opcode {:02x}, prefix {}", opcode, prefix);
      }
    }
    context.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<int64_t>(at);
  }

  struct sigaction before_ = {};
};

}  // namespace evoq

#endif
