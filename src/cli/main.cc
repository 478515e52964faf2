#include <execinfo.h>

#include "cli/program.h"

#ifdef EVOQ_SERVER
namespace evoq {
extern const VerbDef kVerbServe;  // of room serve
}
#endif

int main(int argc, char** argv) {
  // What the C library unwinds its own frames with (those of call_once) is loaded at first use, and
  // the process ends where that finds no memory: an allocation that fails is such a first use.
  void* frame = nullptr;
  backtrace(&frame, 1);
#ifdef EVOQ_SERVER
  const evoq::VerbDef* const more[] = {&evoq::kVerbServe};
  return evoq::RunProgram(argc, argv, more);
#else
  return evoq::RunProgram(argc, argv, {});
#endif
}
