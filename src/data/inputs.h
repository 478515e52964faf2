// Samples for models with any number of inputs.
#pragma once

#include <span>

#include "data/dataset.h"

namespace evoq {

// What an input takes.
struct InputSpec {
  std::string name;
  std::vector<int64_t> sizes;  // -1 where free
  DType dtype = DType::kFloat32;
  bool ranked =
      true;  // false: any rank fits, an index of the first axis is a sample with a batch of 1
};

// Rank and fixed sizes of the content of a file are those that the model's input `input` wants.
// Errors: kInvalidInput with the file, what it holds and what was expected.
Status CheckFits(const std::string& file, const Tensor& content, const std::string& input,
                 const Shape& wanted);

// `sources` (--calib, --data) is one of
//   * NAME=PATH for each input: any data set of OpenDataset, or an .npy array by the rule below;
//   * one .npz whose arrays are named as the inputs, or a folder of such files: sorted by name, one
//     after the other;
//   * for one input: any data set of OpenDataset.
//
// How an array holds samples of an input of rank r whose first size is n (1 where it is free):
//   rank r      n rows of the first axis are a sample: rank 4 of an image model holds images one
//               after the other; rows at the end that fill no sample are left out, which the data
//               set's warning says;
//   rank r + 1  an index of the first axis is a sample of the input's own shape;
//   rank r - 1  one sample without its batch axis, where n is 1.
// Data sets of samples of one row, as images, are gathered in the same way (data/gather.h). Labels
// by position are one for each row, or one for each sample.
//
// All inputs have equally many samples. `options` gives labels and preprocessing; its sizes and
// type are not read. Names of samples are those of the .npz or of the first source. Errors: kUsage
// for sources that do not name each input once; kInvalidInput, naming file, array, what was found
// and what was expected; those of OpenDataset.
Result<std::unique_ptr<Dataset>> OpenInputs(std::span<const std::string> sources,
                                            std::span<const InputSpec> inputs,
                                            const DatasetOptions& options);

}  // namespace evoq
