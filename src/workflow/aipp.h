// Preprocessing inside a model, as a configuration of Ascend's AIPP says it (docs/ascend.md): the
// model then takes images of bytes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "program/model.h"

namespace evoq {

// Of one input: an image [N, height, width, channels] of uint8. Channel c of what the model took is
// (x[c'] - mean[c] - min[c]) * var_reci[c], where c' is 2 - c with swap, else c.
struct Aipp {
  int input = 0;  // its place among the model's inputs
  int channels = 3;
  std::optional<int64_t> width, height;            // of the image; nothing: as the model's input
  bool crop = false;                               // a part of the image, as large as the input
  int64_t left = 0, top = 0;                       // where it begins
  std::optional<int64_t> crop_width, crop_height;  // nothing: as the input
  bool swap = false;                               // of red and blue
  std::array<float, 4> mean = {}, min = {}, var_reci = {1, 1, 1, 1};
};

// The aipp_op of a file. Errors: kInvalidInput naming file, line, what was found and what was
// expected; kUnsupported for what evoq does not do: dynamic parameters, colour conversion, padding,
// resizing and formats other than RGB888_U8 and YUV400_U8.
Result<std::vector<Aipp>> ReadAipp(const std::string& path);

// The graph with it in front; `sets`, sizes of inputs that the graph is to be prepared for, are
// then those of the image. Errors: kInvalidInput for an input that there is not or that is no
// float32 image [N, channels, height, width] of known size.
Status InsertAipp(const Aipp& aipp, Graph& graph, std::vector<InputShapes>& sets);

}  // namespace evoq
