// Whose cores this machine has, to the generation: what a processor's name may leave out ("AMD
// EPYC", as virtual machines say) and a set of instructions does not tell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evoq {

// From the general to the particular: "AMD family 26 model 2", "Intel family 6 model 207", on Arm
// implementer and part of the main identification register, "Arm 0x41 0xd40"; "unknown" where the
// machine does not say.
std::string CoreKind();

// The same of x86 by leaf 1 of CPUID, register EAX, for a maker's word of one.
std::string X86CoreKind(std::string_view maker, uint32_t leaf_1_eax);

// Whether a kind of cores begins with these words.
bool BeginsWithWords(std::string_view kind, std::string_view words);

// How many words of one kind of cores are the other's too, from the first on.
int SharedWords(std::string_view a, std::string_view b);

}  // namespace evoq
