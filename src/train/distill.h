// Learning from another model's scores: Hinton, Vinyals, Dean, "Distilling the Knowledge in a
// Neural Network", 2015.
#pragma once

#include <span>

namespace evoq {

// T^2 KL(p || q) of one sample, with p = softmax(teacher / T), q = softmax(scores / T): the factor
// T^2 keeps the gradient's size for any T. Adds to `gradient` [classes] its derivatives by the
// scores, T (q - p), times `factor`.
double AddDistillation(std::span<const float> scores, std::span<const float> teacher,
                       float temperature, float factor, float* gradient);

}  // namespace evoq
