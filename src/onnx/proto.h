// ONNX's protobuf messages, as libonnx generates them. Included by files of this room only.
#pragma once

#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
// clang-format off: the first defines what the second needs
#include <onnx/onnx_pb.h>
#include <onnx/onnx-data.pb.h>
// clang-format on
#pragma GCC diagnostic pop

#include <string>

namespace evoq {

// The standard's own domain has two names.
inline std::string CanonicalDomain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

}  // namespace evoq
