#include "cli/program.h"

#ifdef EVOQ_SERVER
namespace evoq {
extern const VerbDef kVerbServe;  // of room serve
}
#endif

int main(int argc, char** argv) {
#ifdef EVOQ_SERVER
  const evoq::VerbDef* const more[] = {&evoq::kVerbServe};
  return evoq::RunProgram(argc, argv, more);
#else
  return evoq::RunProgram(argc, argv, {});
#endif
}
