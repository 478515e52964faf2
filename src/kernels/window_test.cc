#include "kernels/window.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

// The windows of 7 x 5 inputs to 3 x 4 outputs by a kernel of 3 x 2, or the error.
Result<std::vector<WindowDim>> Windows(const Attrs& attrs) {
  return WindowFromAttrs(attrs, {3, 2}, {7, 5}, {3, 4});
}

TEST(Window, AttributesPerDimension) {
  Attrs attrs;
  attrs.Set("strides", Ints{2, 1});
  attrs.Set("dilations", Ints{1, 3});
  attrs.Set("pads", Ints{1, 2, 3, 4});
  const auto window = Windows(attrs).value();
  ASSERT_EQ(window.size(), 2u);
  const Ints got = {window[0].in,       window[0].out,    window[0].kernel,  window[0].stride,
                    window[0].dilation, window[0].pad,    window[0].pad_end, window[1].in,
                    window[1].out,      window[1].kernel, window[1].stride,  window[1].dilation,
                    window[1].pad,      window[1].pad_end};
  EXPECT_EQ(got, (Ints{7, 3, 3, 2, 1, 1, 3, 5, 4, 2, 1, 3, 2, 4}));
  const auto plain = Windows({}).value();
  EXPECT_EQ((Ints{plain[0].stride, plain[1].dilation, plain[0].pad, plain[1].pad_end}),
            (Ints{1, 1, 0, 0}));
}

TEST(Window, AutoPad) {
  struct Case {
    const char* mode;
    int64_t in, out, kernel, stride, dilation;
    Ints pads;
  };
  const Case cases[] = {
      {"VALID", 7, 3, 3, 2, 1, {0, 0}},  // instead of the pads that are given
      {"NOTSET", 7, 3, 3, 2, 1, {5, 6}},
      {"SAME_UPPER", 7, 4, 4, 2, 1, {1, 2}},  // (4 - 1) 2 + 4 - 7 = 3
      {"SAME_LOWER", 7, 4, 4, 2, 1, {2, 1}},
      {"SAME_UPPER", 5, 5, 2, 1, 3, {1, 2}},  // (5 - 1) + (2 - 1) 3 + 1 - 5 = 3
      {"SAME_LOWER", 9, 3, 1, 3, 1, {0, 0}},  // (3 - 1) 3 + 1 - 9 is below 0
  };
  for (const Case& c : cases) {
    Attrs attrs;
    attrs.Set("auto_pad", c.mode);
    attrs.Set("pads", Ints{5, 6});
    attrs.Set("strides", Ints{c.stride});
    attrs.Set("dilations", Ints{c.dilation});
    const auto window = WindowFromAttrs(attrs, {c.kernel}, {c.in}, {c.out}).value();
    EXPECT_EQ((Ints{window[0].pad, window[0].pad_end}), c.pads) << c.mode << " " << c.in;
  }
}

TEST(Window, RefusesWhatDoesNotFit) {
  const auto why = [](const char* name, const Ints& value) {
    Attrs attrs;
    attrs.Set(name, value);
    const auto window = Windows(attrs);
    return window ? "" : window.error().message();
  };
  const int64_t limit = int64_t{1} << 31;
  EXPECT_EQ(why("strides", {1}),
            "strides [1], dilations [1, 1], pads [0, 0, 0, 0] for 2 spatial dimensions");
  EXPECT_EQ(why("dilations", {1, 1, 1}),
            "strides [1, 1], dilations [1, 1, 1], pads [0, 0, 0, 0] for 2 spatial dimensions");
  EXPECT_EQ(why("pads", {0, 0}),
            "strides [1, 1], dilations [1, 1], pads [0, 0] for 2 spatial dimensions");
  EXPECT_EQ(why("strides", {1, 0}), "kernel, stride or dilation 0 in dimension 1");
  EXPECT_EQ(why("dilations", {-1, 1}), "kernel, stride or dilation -1 in dimension 0");
  EXPECT_EQ(why("strides", {limit - 1, 1}), "");
  EXPECT_EQ(why("strides", {limit, 1}), "kernel, stride or dilation 2147483648 in dimension 0");
  EXPECT_EQ(why("pads", {0, 1 - limit, 0, limit - 1}), "");
  EXPECT_EQ(why("pads", {0, -limit, 0, 0}), "sizes 5 -> 4 with padding -2147483648 in dimension 1");
  EXPECT_EQ(why("pads", {0, 0, limit, 0}), "sizes 7 -> 3 with padding 0 in dimension 0");
  const auto sizes = [](const Ints& kernel, const Ints& in, const Ints& out) {
    const auto window = WindowFromAttrs({}, kernel, in, out);
    return window ? "" : window.error().message();
  };
  EXPECT_EQ(sizes({3, 3, 3}, {7, 5}, {3, 4}), "a window of 3 dimensions over an input of 2");
  EXPECT_EQ(sizes({3, 3}, {7, 5}, {3, 4, 1}), "a window of 2 dimensions over an input of 2");
  EXPECT_EQ(sizes({0}, {7}, {3}), "kernel, stride or dilation 0 in dimension 0");
  EXPECT_EQ(sizes({1}, {limit - 1}, {limit - 1}), "");
  EXPECT_EQ(sizes({1}, {limit}, {1}), "sizes 2147483648 -> 1 with padding 0 in dimension 0");
  EXPECT_EQ(sizes({1}, {1}, {limit}), "sizes 1 -> 2147483648 with padding 0 in dimension 0");
}

// Against each tap's place, one by one.
TEST(Window, TapsInsideAndPadded) {
  for (int64_t kernel : {1, 2, 3, 5}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t dilation : {1, 2, 3}) {
        for (int64_t pad : {0, 1, 4}) {
          const WindowDim w{6, 9, kernel, stride, dilation, pad, 2};
          for (int64_t o = 0; o < w.out; ++o) {
            int64_t begin = kernel, end = 0, padded = 0;
            for (int64_t i = 0; i < kernel; ++i) {
              const int64_t at = o * stride - pad + i * dilation;
              if (at >= 0) begin = std::min(begin, i);
              if (at < w.in) end = i + 1;
              padded += at < w.in + w.pad_end;
            }
            EXPECT_EQ(w.TapBegin(o), begin)
                << kernel << " " << stride << " " << dilation << " " << pad << " " << o;
            EXPECT_EQ(w.TapEnd(o), end)
                << kernel << " " << stride << " " << dilation << " " << pad << " " << o;
            EXPECT_EQ(w.PaddedTaps(o), padded)
                << kernel << " " << stride << " " << dilation << " " << pad << " " << o;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace evoq
