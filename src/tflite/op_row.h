// An operator of TensorFlow Lite: its number, and how it becomes nodes of the graph. One row per
// operator, in tflite/ops.inc.
#pragma once

#include <span>
#include <string>

#include "tflite/file.h"
#include "tflite/sizes.h"

namespace evoq::tflite {

class Translator;

struct OpRow {
  const char* name;      // "CONV_2D"
  int number;            // of the schema's enumeration
  int least_inputs = 1;  // the first ones, which may not be left out
  int most_inputs = 1;   // -1: any number
  int outputs = 1;       // -1: any number
  bool complex = false;  // reads or makes complex numbers
  bool resources = false;
  Status (*translate)(Translator& to);
  Sizes (*sizes)(const Translator& to) = nullptr;  // of output 0, where integers are followed
};

std::span<const OpRow* const> AllOpRows();
std::span<const OpRow* const> CustomOpRows();  // of number kCustom, known by their names
// nullptr for an operator that evoq lacks.
const OpRow* FindOpRow(int number);
const OpRow* FindOpRow(const fb::OperatorCode& code);  // of custom operators too
// "CONV_2D", "custom TFLite_Detection_PostProcess", or "number 133" for one that evoq lacks and
// whose name it does not know.
std::string OperatorName(const fb::OperatorCode& code);

}  // namespace evoq::tflite
