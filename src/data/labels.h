// Class labels of samples, from a table or an idx file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"

namespace evoq {

// What an .npz calls its array of labels: the first of these that it has.
inline constexpr const char* kLabelArrays[] = {"labels", "label", "y", "y_test"};
// What it calls what outputs are to be.
inline constexpr const char* kTargetArrays[] = {"targets", "target",  "y",
                                                "y_test",  "outputs", "output"};
// Whether an array of such a name holds labels: whole numbers, not what outputs are to be.
bool HoldsLabels(const Tensor& array);

// Either by file name (a .tsv) or by position (idx, .npy).
struct Labels {
  std::string path;  // "" when there are none
  std::map<std::string, int64_t> by_name;
  std::vector<int64_t> by_index;

  // Errors: kInvalidInput for more labels by position than `rows`, which are data that has one
  // each; and than `samples` of them, which may have one each too.
  Status CheckCount(int64_t samples, int64_t rows) const;
  // Labels the sample, or each of its rows where there are more labels than `samples`, or names of
  // rows. `first` counts the rows before it. Errors: those of Of.
  Status AddTo(Sample& sample, int64_t index, int64_t samples, int64_t first) const;

  // The label of the sample, nothing when there are no labels at all.
  // Errors: kInvalidInput when the file has none for this one.
  Result<std::optional<int64_t>> Of(const std::string& name, int64_t index) const;
};

// "" gives no labels. A .tsv has a header line with the columns `file` and `class_index` or
// `label`; an idx file (also gzipped) is one-dimensional; a .npy holds integers, one per sample.
Result<Labels> LoadLabels(const std::string& path);

// Labels of the sample and its rows, where they have one, become the model's class: the offset of
// `preprocess` is added. Errors: kInvalidInput when the sum does not fit 64 bits.
Status AddLabelOffset(const std::optional<Preprocess>& preprocess, Sample& sample);

}  // namespace evoq
