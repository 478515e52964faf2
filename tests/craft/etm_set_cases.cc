// Files whose scale sets are wrong.
#include "tests/craft/etm.h"
#include "tests/craft/etm_cases.h"

namespace evoq::craft {
namespace {

template <typename Change>
std::string With(Change change) {
  EtmModel model;
  AddSets(model);
  change(model, model.sets.sets, *model.sets.sets[1]->changes[0], *model.sets.sets[1]->changes[1]);
  return Write(model);
}

}  // namespace

std::vector<EtmCase> SetCases() {
  using M = EtmModel&;
  using S = std::vector<std::unique_ptr<fb::ScaleSetT>>&;
  using C = fb::ScaleChangeT&;  // q of night: its scales; b: its contents
  const auto more = [](S sets, size_t count) {
    while (sets.size() < count) {
      sets.push_back(std::make_unique<fb::ScaleSetT>());
      sets.back()->name = "set" + std::to_string(sets.size());
    }
  };
  return {
      {"good, scale sets", With([](M, S, C, C) {}), ""},
      {"good, 16 scale sets", With([&](M, S sets, C, C) { more(sets, 16); }), ""},
      {"17 scale sets", With([&](M, S sets, C, C) { more(sets, 17); }),
       "17 scale sets, expected at most 16"},
      {"one scale set", With([](M, S sets, C, C) { sets.pop_back(); }),
       "1 scale sets, expected 2 to 16"},
      {"the first set has changes",
       With([](M, S sets, C, C) { std::swap(sets[0]->changes, sets[1]->changes); }),
       "scale set day: 2 changes of the first set, expected none"},
      {"a set without a name", With([](M, S sets, C, C) { sets[1]->name = ""; }),
       "scale set '': expected a name without '/'"},
      {"a set's name with a slash", With([](M, S sets, C, C) { sets[1]->name = "a/b"; }),
       "scale set 'a/b': expected a name without '/'"},
      {"sets of one name", With([](M, S sets, C, C) { sets[1]->name = "day"; }),
       "scale set day: two sets have this name"},
      {"a set of -1 samples", With([](M, S sets, C, C) { sets[1]->samples = -1; }),
       "scale set night: -1 samples"},
      {"a set's value past the end", With([](M, S, C q, C) { q.value = 6; }),
       "scale set night: value index 6, expected one below 6"},
      {"a set's value -1", With([](M, S, C q, C) { q.value = -1; }),
       "scale set night: value index -1, expected one below 6"},
      {"a set's value twice", With([](M, S, C q, C b) {
         q.value = 2, q.quant.reset(), q.constant = std::make_unique<fb::ConstantT>(*b.constant);
       }),
       "scale set night: value b: it stands twice"},
      {"a set's value is an input", With([](M, S, C q, C) { q.value = 0, q.quant.reset(); }),
       "scale set night: value x: it is an input or output of the model, whose type stays"},
      {"a set's value is an output", With([](M, S, C, C b) { b.value = 1, b.constant->bytes = 4; }),
       "scale set night: value w: "},
      {"a constant for a computed value", With([](M, S, C q, C) {
         q.constant = std::make_unique<fb::ConstantT>();
         q.constant->bytes = 2;
       }),
       "scale set night: value q: a constant for a computed value"},
      {"no constant for a constant", With([](M, S, C, C b) { b.constant.reset(); }),
       "scale set night: value b: no constant for a constant"},
      {"a set without scales for a value", With([](M, S, C q, C) { q.quant.reset(); }),
       "scale set night: value q: it is uint8[1, 2](scale 0.5, zero 0), the set has 0 scales"},
      {"a set with scales for a float", With([](M, S, C, C b) {
         b.quant = std::make_unique<fb::QuantT>();
         b.quant->scale = 1;
       }),
       "scale set night: value b: "},
      {"a computed value of a set without scales", With([](M m, S, C q, C) {
         m.value(5).type->quant.reset();
         q.quant.reset();
       }),
       "scale set night: value q: it is computed, and uint8[1, 2] has no scales to change"},
      {"another number of scales",
       With([](M, S, C q, C) { q.quant->scale_count = 2, q.quant->axis = 1; }),
       "scale set night: value q: 2 scales, expected those of uint8[1, 2](scale 0.5, zero 0)"},
      {"a negative scale in a set", With([](M, S, C q, C) { q.quant->scale = -1; }),
       "scale set night: value q: "},
      {"a zero point of a set past the type", With([](M, S, C q, C) { q.quant->zero = 256; }),
       "scale set night: value q: "},
      {"a set's constant past the end", With([](M, S, C, C b) { b.constant->offset = 20; }),
       "scale set night: value b: bytes 20..+8 lie outside"},
      {"a set's constant of other bytes", With([](M, S, C, C b) { b.constant->bytes = 4; }),
       "scale set night: value b: 4 bytes for float32[2], expected 8"},
      {"a set's constant in another layout",
       With([](M, S, C, C b) { b.constant->layout = "no such layout"; }),
       "scale set night: value b: unknown tensor layout 'no such layout'"},
  };
}

}  // namespace evoq::craft
