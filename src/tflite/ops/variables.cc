// CALL_ONCE, VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Status CallOnce(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::CallOnceOptions>());
  return to.InitializeVariables(o->init_graph());
}

// Variables are known by their handles before operators are translated.
Status VarHandle(Translator& to) {
  if (to.output(0).elements != Elements::kResource)
    return InvalidInput("output {} is no resource", to.output(0).name);
  return {};
}

Status ReadVariable(Translator& to) { return to.ReadVariable(); }
Status AssignVariable(Translator& to) { return to.AssignVariable(); }

}  // namespace

extern const OpRow kCallOnce = {.name = "CALL_ONCE",
                                .number = 129,
                                .least_inputs = 0,
                                .most_inputs = 0,
                                .outputs = 0,
                                .translate = CallOnce};
extern const OpRow kVarHandle = {.name = "VAR_HANDLE",
                                 .number = 142,
                                 .least_inputs = 0,
                                 .most_inputs = 0,
                                 .resources = true,
                                 .translate = VarHandle};
extern const OpRow kReadVariable = {
    .name = "READ_VARIABLE", .number = 143, .resources = true, .translate = ReadVariable};
extern const OpRow kAssignVariable = {.name = "ASSIGN_VARIABLE",
                                      .number = 144,
                                      .least_inputs = 2,
                                      .most_inputs = 2,
                                      .outputs = 0,
                                      .resources = true,
                                      .translate = AssignVariable};

}  // namespace evoq::tflite
