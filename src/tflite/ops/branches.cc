// IF and WHILE.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Status If(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::IfOptions>());
  EVOQ_ASSIGN(const std::vector<ValueId> y,
              to.ApplyGraphs("If", {to.Real(0)}, {o->then_graph(), o->else_graph()}, 1));
  for (size_t i = 0; i < y.size(); ++i) EVOQ_TRY(to.Set(i, y[i]));
  return {};
}

Status While(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::WhileOptions>());
  EVOQ_ASSIGN(const std::vector<ValueId> y, to.ApplyLoop(o->cond_graph(), o->body_graph()));
  for (size_t i = 0; i < y.size(); ++i) EVOQ_TRY(to.Set(i, y[i]));
  return {};
}

}  // namespace

extern const OpRow kIf = {
    .name = "IF", .number = 118, .most_inputs = -1, .outputs = -1, .translate = If};
extern const OpRow kWhile = {
    .name = "WHILE", .number = 119, .most_inputs = -1, .outputs = -1, .translate = While};

}  // namespace evoq::tflite
