// The whole program, of a command that has verbs of its own beside those of every one.
#pragma once

#include <span>

#include "cli/verb.h"

namespace evoq {

// As RunCommandLine, with `more` verbs behind AllVerbs(): those that need libraries which other
// programs do without.
int RunProgram(int argc, const char* const* argv, std::span<const VerbDef* const> more);

}  // namespace evoq
