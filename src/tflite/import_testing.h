// For tests of the import.
#pragma once

#include "tflite/import.h"
#include "tflite/test_model.h"

namespace evoq::tflite {

inline Result<Graph> Read(const TestModel& file) {
  const std::string bytes = file.Bytes();
  return ImportTfliteBytes(std::as_bytes(std::span(bytes)), "net.tflite");
}

}  // namespace evoq::tflite
