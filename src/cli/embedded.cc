#include "cli/embedded.h"

// EVOQ_DIGITS_ONNX is the path of the file, given by the build.
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".globl evoq_digits_begin\n"
    "evoq_digits_begin:\n"
    ".incbin \"" EVOQ_DIGITS_ONNX
    "\"\n"
    ".globl evoq_digits_end\n"
    "evoq_digits_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" const char evoq_digits_begin[];
extern "C" const char evoq_digits_end[];

namespace evoq {

std::string_view EmbeddedDigitsModel() {
  return {evoq_digits_begin, static_cast<size_t>(evoq_digits_end - evoq_digits_begin)};
}

}  // namespace evoq
