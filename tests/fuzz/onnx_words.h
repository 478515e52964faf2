// Names, words and numbers that mean something in ONNX models.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace evoq {

// Attribute names of ONNX's operators, by kind.
// clang-format off: one name a line is a page
inline constexpr const char* kInts[] = {
    "axes", "dilations", "ends", "kernel_shape", "output_padding", "output_shape", "pads", "perm",
    "scales", "shape", "split", "starts", "strides", "scan_input_axes", "scan_output_axes",
    "scan_input_directions"
};
// clang-format on
// clang-format off: one name a line is a page
inline constexpr const char* kInt[] = {
    "align_corners", "allowzero", "antialias", "axis", "batch_axis", "batch_dims", "block_size",
    "blocksize", "ceil_mode", "count_include_pad", "dtype", "exclude_outside", "exclusive", "fmod",
    "group", "hidden_size", "is_causal", "k", "keepdims", "kv_num_heads", "largest", "layout",
    "noop_with_empty_axes", "num_groups", "num_heads", "num_outputs", "num_scan_inputs",
    "offset_group", "output_dtype", "q_num_heads", "reverse", "rotary_embedding_dim",
    "sampling_ratio", "saturate", "select_last_index", "sorted", "stash_type", "storage_order",
    "to", "training_mode", "transA", "transB", "upper", "start", "end", "bits", "K", "N"
};
// clang-format on
inline constexpr const char* kFloat[] = {
    "alpha",   "beta",          "bias",          "clip",
    "epsilon", "gamma",         "high",          "lambd",
    "low",     "momentum",      "ratio",         "scale",
    "softcap", "spatial_scale", "cubic_coeff_a", "extrapolation_value"};
inline constexpr const char* kText[] = {
    "approximate", "auto_pad",     "coordinate_transformation_mode",
    "direction",   "equation",     "keep_aspect_ratio_policy",
    "mode",        "nearest_mode", "padding_mode",
    "reduction",   "activation",   "pattern",
    "delimiter"};
// clang-format off: one name a line is a page
inline constexpr const char* kWords[] = {
    "", "linear", "nearest", "cubic", "reflect", "edge", "wrap", "constant", "SAME_UPPER",
    "SAME_LOWER", "VALID", "NOTSET", "align_corners", "asymmetric", "half_pixel",
    "tf_crop_and_resize", "pytorch_half_pixel", "half_pixel_symmetric", "CRD", "DCR", "ij,jk->ik",
    "...ij,...jk", "bidirectional", "reverse", "forward", "tanh", "none", "mean", "sum", "add",
    "mul", "max", "min", "LEFT", "RIGHT", "floor", "ceil", "round_prefer_floor", "stretch",
    "not_larger", "not_smaller", "Relu", "Sigmoid", "Tanh", "(a|b)*c", "[a-z]+", "i->", "ii->i",
    "bilinear", "border", "zeros", "output_half_pixel"
};
// clang-format on
inline constexpr int64_t kNumbers[] = {
    0,         1,        -1, 2,   -2,      3,         4,         5,
    7,         8,        16, 255, 1 << 16, INT32_MAX, INT32_MIN, int64_t{1} << 40,
    INT64_MAX, INT64_MIN};
inline constexpr size_t kSmallNumbers = 10;
inline constexpr float kReals[] = {0,     1,      -1,       0.5f,      2,   1e-30f, 1e30f, -1e30f,
                                   3e38f, 1e-45f, INFINITY, -INFINITY, NAN, 6,      255};

}  // namespace evoq
