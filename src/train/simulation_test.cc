// Simulated operators and their gradients, by hand.
#include "train/simulation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evoq {
namespace {

struct Row {
  Node node;
  std::vector<std::vector<float>> x;  // values and parameters of steps
  std::vector<Shape> shapes;
  Shape y_shape;
};

struct Ran {
  std::vector<float> y;
  std::vector<std::vector<float>> dx;
};

Ran RunOnce(Row row, std::vector<float> dy) {
  Graph graph;
  for (size_t i = 0; i < row.x.size(); ++i)
    row.node.inputs.push_back(graph.AddInput("x", TensorType(DType::kFloat32, row.shapes[i])));
  row.node.outputs = {graph.AddValue("y")};
  row.node.domain = kSimulationDomain;
  std::vector<TensorType> types;
  for (const Shape& shape : row.shapes) types.emplace_back(DType::kFloat32, shape);
  const TensorType y(DType::kFloat32, row.y_shape);
  const std::vector<const Tensor*> constants(types.size(), nullptr);
  const GradientDef* const def = FindGradient(row.node);
  EXPECT_NE(def, nullptr) << row.node.op;
  const auto bound = def->bind({row.node, types, {&y, 1}, constants});
  EXPECT_TRUE(bound) << bound.error().message();
  Ran out{.y = std::vector<float>(static_cast<size_t>(*row.y_shape.elements())), .dx = {}};
  GradientRun run{.isa = *SelectIsa()};
  AlignedBuffer scratch(0);
  run.scratch = &scratch;
  for (const std::vector<float>& x : row.x) {
    run.x.push_back(x.data());
    out.dx.emplace_back(x.size(), 0.0f);
  }
  for (std::vector<float>& dx : out.dx) run.dx.push_back(dx.data());
  run.y = {out.y.data()};
  bound->forward(run);
  run.dy = {dy.data()};
  bound->backward(run);
  return out;
}

void Near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 1e-3 * (1 + std::fabs(wanted[i]))) << i;
}

const float kHalf = std::log(0.5f), kQuarter = std::log(0.25f), kEighth = std::log(0.125f);
const Shape kStep{1};

// A gate [1, 2, 1] of values [1, 2, 2], with s_a s_b / s_y = 1: of the products 6, -8, 12 and 9 the
// third is cut off at 10.
TEST(SimulatedMul, GatesByHand) {
  Row row{.node = {.op = "Mul"},
          .x = {{2, 3}, {3, -4, 4, 3}, {kHalf}, {kQuarter}, {kEighth}},
          .shapes = {Shape{1, 2, 1}, Shape{1, 2, 2}, kStep, kStep, kStep},
          .y_shape = Shape{1, 2, 2}};
  StepBounds{-10, 10, 0}.To(row.node.attrs, "y");
  const Ran ran = RunOnce(row, {1, 10, 100, 1000});
  Near(ran.y, {6, -8, 10, 9});
  // dy b s_b and dy a s_a, without the third.
  Near(ran.dx[0], {(3 * 1 - 4 * 10) * 0.25f, 3 * 1000 * 0.25f});
  Near(ran.dx[1], {2 * 0.5f, 20 * 0.5f, 0, 3000 * 0.5f});
  // The steps of a and b learn where these are made; that of y by what is cut off.
  Near(ran.dx[2], {0});
  Near(ran.dx[4], {100 * 10 / std::sqrt(4.0f * 10) / 0.125f});
}

// The operands the other way around, and of equal shapes.
TEST(SimulatedMul, OperandsEitherWay) {
  Row row{.node = {.op = "Mul"},
          .x = {{3, -4, 4, 3}, {2, 3}, {kQuarter}, {kHalf}, {kEighth}},
          .shapes = {Shape{1, 2, 2}, Shape{1, 2, 1}, kStep, kStep, kStep},
          .y_shape = Shape{1, 2, 2}};
  StepBounds{-10, 10, 0}.To(row.node.attrs, "y");
  const Ran ran = RunOnce(row, {1, 10, 100, 1000});
  Near(ran.y, {6, -8, 10, 9});
  Near(ran.dx[1], {(3 * 1 - 4 * 10) * 0.25f, 3 * 1000 * 0.25f});
  row.x[1] = {2, 2, 3, 3};
  row.shapes[1] = Shape{1, 2, 2};
  const Ran equal = RunOnce(row, {1, 10, 100, 1000});
  Near(equal.y, {6, -8, 10, 9});
  Near(equal.dx[1], {0.75f, -10, 0, 750});
  Near(equal.dx[0], ran.dx[0]);
}

// Sigmoid of -2, 0 and 2 in eighths: 0.95, 4 and 7.05, the last cut off at 6.
TEST(SimulatedTable, SigmoidByHand) {
  Row row{.node = {.op = "Table"},
          .x = {{-4, 0, 4}, {kHalf}, {kEighth}},
          .shapes = {Shape{1, 3}, kStep, kStep},
          .y_shape = Shape{1, 3}};
  row.node.attrs.Set("op", "Sigmoid");
  row.node.attrs.Set("op_domain", "");
  row.node.attrs.Set("x_unsigned", 1);
  row.node.attrs.Set("y_unsigned", 1);
  StepBounds{-100, 155, 100}.To(row.node.attrs, "x");
  StepBounds{0, 6, 0}.To(row.node.attrs, "y");
  const Ran ran = RunOnce(row, {1, 10, 100});
  Near(ran.y, {1, 4, 6});
  const float s = 1 / (1 + std::exp(2.0f));
  Near(ran.dx[0], {s * (1 - s), 10 * 0.25f, 0});
  Near(ran.dx[2], {((1 - 8 * s) + 100 * 6) / std::sqrt(3.0f * 6) / 0.125f});
}

}  // namespace
}  // namespace evoq
