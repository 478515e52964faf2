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
#include <onnx/onnx_pb.h>
#include <onnx/onnx-data.pb.h>
#pragma GCC diagnostic pop
