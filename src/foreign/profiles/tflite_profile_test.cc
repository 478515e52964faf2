// Logs and CSV files of TensorFlow Lite's benchmark_model, in the forms of several versions.
#include <fmt/format.h>

#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

class TfliteProfile : public ProfileFiles {
 protected:
  Result<ForeignRun> Of(const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomic(At("log.txt"), text));
    return Source("tflite").read(At("log.txt"));
  }
};

// With XNNPACK, whose rows stand for several nodes; the initialization's table counts nothing.
const std::string kHeader =
    "  [node type]  [first]  [avg ms]  [%]  [cdf%]  [mem KB]  [times called]  [Name]\n";
// A row of the table; what a delegate runs has its type in the name.
std::string Row(const std::string& type, const std::string& name, const char* average, int calls) {
  return fmt::format("   {}   0.428   {}   4.317%   8.304%   0.000    {}   {}\n", type, average,
                     calls, name.empty() ? fmt::format("Delegate/{}:1", type) : name);
}
const std::string kLog =
    "INFO: STARTING!\n"
    "INFO: Explicitly applied XNNPACK delegate, and the model graph will be partially executed by "
    "the delegate w/ 21 delegate kernels.\n"
    "INFO: Inference timings in us: Init: 32163, First inference: 19834, Warmup (avg): 15997.4, "
    "Inference (avg): 15517.6\n"
    "INFO: Profiling Info for Benchmark Initialization:\n"
    "============================== Run Order ==============================\n" +
    kHeader + Row("ModifyGraphWithDelegate", "ModifyGraphWithDelegate/0", "6.348", 1) +
    "\n\nINFO: Operator-wise Profiling Info for Regular Benchmark Runs:\n"
    "============================== Run Order ==============================\n" +
    kHeader + Row("QUANTIZE", "[tfl.quantize]:0", "0.203", 1) +
    Row("Convolution (NHWC, QC8) DWConv", "", "0.050", 13) +
    Row("Convolution (NHWC, F32) IGEMM", "", "2.0", 1) +
    Row("Convert (NC, QS8, F32)", "", "0.835", 1) + Row("Convert (NC, F32, QD8)", "", "0.025", 1) +
    Row("Fully Connected (NC, QD8, F32, QC8W) GEMM", "", "0.1", 1) +
    Row("Max Pooling (NHWC, S8)", "", "0.3", 1) +
    Row("RESIZE_NEAREST_NEIGHBOR", "[a/b c, d]:74", "0.006", 1) +
    "\n============================== Top by Computation Time ==============================\n" +
    kHeader + Row("Convert (NC, QS8, F32)", "", "0.835", 1) +
    "\nNumber of nodes executed: 8\n"
    "============================== Summary by node type ==============================\n"
    "  [Node type]  [count]  [avg ms]  [avg %]  [cdf %]  [mem KB]  [times called]\n"
    "     QUANTIZE        1     0.203   1.332%  97.257%     0.000               1\n";

TEST_F(TfliteProfile, WithADelegate) {
  const auto run = Of(kLog);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->tool, "tflite");
  EXPECT_NEAR(run->end_to_end_ms, 15.5176, 1e-12);
  EXPECT_FALSE(run->in_order) << "a row of several nodes has no place";
  EXPECT_NE(run->note.find("runs 21 parts of the model"), std::string::npos);
  ASSERT_EQ(run->layers.size(), 8u);
  const ForeignLayer &conv = run->layers[1], &product = run->layers[5], &resize = run->layers[7];
  EXPECT_EQ(conv.type, "Convolution (NHWC, QC8) DWConv");
  EXPECT_EQ(conv.name, "Delegate/Convolution (NHWC, QC8) DWConv:1");
  EXPECT_NEAR(conv.ms, 13 * 0.05, 1e-12) << "the table has the mean of a call";
  EXPECT_EQ(conv.group, LayerGroup::kConv);
  EXPECT_EQ(conv.precision, "int8");
  EXPECT_EQ(conv.where, "delegate");
  EXPECT_EQ(product.group, LayerGroup::kMatMul);
  EXPECT_EQ(product.precision, "int8");
  EXPECT_EQ(run->layers[6].group, LayerGroup::kPooling);
  EXPECT_EQ(run->layers[3].conversion, Conversion::kDequantize);
  EXPECT_EQ(resize.name, "[a/b c, d]:74");
  EXPECT_EQ(resize.where, "TensorFlow Lite");
  const auto lost = LostBy(Diagnose(*run, nullptr));
  EXPECT_NEAR(lost.at("stays-float"), 0.75 * 2, 1e-12);
  EXPECT_NEAR(lost.at("dynamic-ranges"), 0.025, 1e-12);
  EXPECT_NEAR(lost.at("unfused-qdq"), 0.203 + 0.835, 1e-12);
  EXPECT_EQ(lost.at("outside-delegate"), 0);
  EXPECT_EQ(lost.size(), 4u);
}

// Fields between commas, with and without spaces, [start] or not; commas in a name are tabs.
TEST_F(TfliteProfile, FieldsBetweenCommas) {
  for (const char* header : {"node type, start, first, avg_ms, %, cdf%, mem KB, times called, name",
                             "node type,first,avg_ms,%,cdf%,mem KB,times called,name"}) {
    const bool start = std::string(header).find("start") != std::string::npos;
    const std::string at = start ? " 0.5," : "";
    const auto run = Of(std::string("Operator-wise Profiling Info for Regular Benchmark Runs:\n") +
                        "===== Run Order =====\n" + header + "\r\nCONV_2D," + at +
                        " 0.11, 0.25, 44.8994%, 44.8%, 0, 1, [s/c, d/Conv2D]:0\r\n" +
                        "Convolution (NHWC, F32) IGEMM," + at +
                        "0.16,0.5,11.4405%,11.4%,0,2,Delegate/Convolution (NHWC\t F32) IGEMM:1\n" +
                        "nothing, of, a, row\n");
    ASSERT_TRUE(run) << run.error().message();
    ASSERT_EQ(run->layers.size(), 2u) << header;
    EXPECT_EQ(run->layers[0].name, "[s/c, d/Conv2D]:0");
    EXPECT_EQ(run->layers[0].ms, 0.25);
    EXPECT_EQ(run->layers[0].precision, "");
    EXPECT_EQ(run->layers[1].name, "Delegate/Convolution (NHWC, F32) IGEMM:1");
    EXPECT_EQ(run->layers[1].precision, "fp32");
    EXPECT_EQ(run->layers[1].ms, 1);
  }
}

// Older versions: a delegate is one node, whose inside has a table of its own; calls of 0.
TEST_F(TfliteProfile, ADelegateAndItsInside) {
  const std::string header =
      "= Run Order =====\n\t [node type]\t [start]\t [first]\t [avg ms]\t [%]\t [cdf%]\t [mem KB]\t"
      "[times called]\t[Name]\n";
  const std::string head =
      "Average inference timings in us: Warmup: 135310, Init: 12123, no stats: 1500\n"
      "Primary graph profile:\n" +
      header +
      "\t TfLiteXNNPackDelegate\t 0.0\t 1.0\t 1.0\t 90%\t 90%\t 0.0\t 0\t[out]:5\n"
      "\t SOFTMAX\t 1.0\t 0.1\t 0.125\t 10%\t 100%\t 0.0\t 0\t[p]:6\n"
      "Subgraph (index: 1) profile:\n" +
      header + "\t ADD\t 1.0\t 0.1\t 7\t 10%\t 100%\t 0.0\t 0\t[p]:6\n";
  const auto whole = Of(head);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ(whole->layer_sum_ms, 1.125);
  EXPECT_EQ(whole->end_to_end_ms, 1.5);
  EXPECT_EQ(whole->layers[0].where, "delegate");
  EXPECT_TRUE(whole->in_order);
  const auto inside =
      Of(head + "Delegate internal: \n" + header +
         "\t Sigmoid (NC, F32)\t 0.0\t 1.0\t 0.75\t 90%\t 90%\t 0.0\t 1\tSigmoid (NC, F32):0\n");
  ASSERT_TRUE(inside) << inside.error().message();
  EXPECT_EQ(inside->layer_sum_ms, 0.875);
  EXPECT_EQ(inside->layers[1].where, "delegate");
  EXPECT_EQ(inside->layers[1].group, LayerGroup::kElementwise);
}

TEST_F(TfliteProfile, WhatIsNone) {
  const std::string header =
      "= Run Order =====\nnode type, first, avg_ms, %, cdf%, mem KB, times called, name\n";
  for (const std::string& text :
       {std::string(), std::string("Inference (avg): 3\n"), header, header + "a,1,2,3,4,5,6,n\n",
        header + "1,2,3%,4%,5,6\n", header + ",,,,,,,,\n", header + "a,nan,1,3%,4%,0,1,n\n",
        header + "Profiling Info for Regular Benchmark Runs:\na,1,1,3%,4%,0,1,n\n",
        "Profiling Info for Benchmark Initialization:\n" + header + "a,1,1,3%,4%,0,1,n\n"}) {
    const auto run = Of(text);
    ASSERT_FALSE(run) << text;
    EXPECT_NE(run.error().message().find("expected what TensorFlow Lite's benchmark_model prints"),
              std::string::npos);
  }
  const auto odd = Of(header + "Convert (,1,-1,3%,4%,0,-7,\nX (),1,1,3%,4%,0,1e9,n\n");
  ASSERT_TRUE(odd) << odd.error().message();
  EXPECT_EQ(odd->layers[0].ms, 0);
}

}  // namespace
}  // namespace evoq
