// com.microsoft::UnfoldTensor: the type that comes out, what is refused, the values.
#include "reference/test_call.h"

namespace evoq {
namespace {

const std::string kOp = "com.microsoft::UnfoldTensor";

TEST(UnfoldTensor, InfersItsWindows) {
  CheckInferred({
      {{kOp + "{size=3}", {"float32[9]"}}, "float32[7, 3]"},
      {{kOp + "{dim=0, size=9, step=2}", {"float32[9, 2]"}}, "float32[1, 2, 9]"},
      {{kOp + "{dim=-2, size=2, step=3}", {"uint8[N, 8, 5]"}}, "uint8[N, 3, 5, 2]"},
      {{kOp + "{dim=0, size=2}", {"float32[N, 8]"}}, "float32[?, 8, 2]"},
      {{kOp + "{size=2}", {"float32[...]"}}, "float32[...]"},
      {{kOp + "{size=10}", {"float32[9]"}}, "attribute size is 10, more than the 9 of axis 0"},
      {{kOp, {"float32[9]"}}, "attributes size and step are 0 and 1, expected at least 1"},
      {{kOp + "{size=1, step=0}", {"float32[9]"}},
       "attributes size and step are 1 and 0, expected at least 1"},
      {{kOp + "{dim=1, size=1}", {"float32[9]"}}, "axis 1 is outside [-1, 1)"},
      {{kOp + "{size=1}", {"float32[]"}}, "axis -1 is outside [-0, 0)"},
      {{kOp + "{size=1.5}", {"float32[9]"}}, "attribute size is not an integer"},
  });
}

TEST(UnfoldTensor, TakesElementsFromWindows) {
  CheckEvaluated({
      {{kOp + "{size=2, step=2}", {"int64[5] = [1, 2, 3, 4, 5]"}}, "int64[2, 2] = [1, 2, 3, 4]"},
      {{kOp + "{size=2}", {"uint8[4] = [1, 2, 3, 4]"}}, "uint8[3, 2] = [1, 2, 2, 3, 3, 4]"},
      {{kOp + "{dim=0, size=2}", {"float32[3, 2] = [1, 2, 3, 4, 5, 6]"}},
       "float32[2, 2, 2] = [1.0, 3.0, 2.0, 4.0, 3.0, 5.0, 4.0, 6.0]"},
      {{kOp + "{dim=0, size=2, step=1000000000000}", {"int64[2, 2] = [1, 2, 3, 4]"}},
       "int64[1, 2, 2] = [1, 3, 2, 4]"},
  });
}

}  // namespace
}  // namespace evoq
