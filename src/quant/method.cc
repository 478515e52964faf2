#include "quant/quant.h"

namespace evoq {

#define EVOQ_METHOD(symbol) extern const QuantMethod symbol;
#include "quant/methods.inc"
#undef EVOQ_METHOD

std::span<const QuantMethod* const> AllMethods() {
  static constexpr const QuantMethod* kAll[] = {
#define EVOQ_METHOD(symbol) &symbol,
#include "quant/methods.inc"
#undef EVOQ_METHOD
  };
  return kAll;
}

const QuantMethod* FindMethod(std::string_view name) {
  for (const QuantMethod* method : AllMethods()) {
    if (name == method->name) return method;
  }
  return nullptr;
}

}  // namespace evoq
