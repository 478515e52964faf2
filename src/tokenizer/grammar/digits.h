// Whole numbers between limits, as grammars of their digits; internal to the folder.
#pragma once

#include <optional>

#include "tokenizer/grammar/grammar.h"

namespace evoq {

// A rule of the integers from `least` to `most`, of at most 16 digits where there is no limit. One
// of them must be there, and least <= most.
Grammar::Symbol AddIntegers(GrammarBuilder& builder, std::optional<int64_t> least,
                            std::optional<int64_t> most);

}  // namespace evoq
