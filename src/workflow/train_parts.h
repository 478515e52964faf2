// What training needs besides samples: integers to train with, a model to learn from.
#pragma once

#include "workflow/train.h"

namespace evoq {

// The model of an imported graph whose integers are trained: scales begin from ranges over some of
// the samples. Q/DQ pairs are those that ONNX Runtime computes with where an .onnx is written.
// Errors: those of QuantizedModel::Create and of calibration.
Result<std::unique_ptr<QuantizedModel>> IntegersOf(const TrainJob& job, Graph graph,
                                                   const LabelledSamples& samples,
                                                   const Follow& follow);

// Runs the job's teacher. Errors: those of loading it; kInvalidInput where it does not take the
// samples.
using Teacher = std::function<Result<Tensor>(std::span<const Tensor> inputs)>;
Result<Teacher> TeacherOf(const TrainJob& job, const LabelledSamples& samples);

}  // namespace evoq
