// Tables of CANN's msprof, with the columns of several versions.
#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

class Msprof : public ProfileFiles {
 protected:
  Result<ForeignRun> Of(const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomic(At("op_summary_1.csv"), text));
    return Source("msprof").read(At("op_summary_1.csv"));
  }
  std::string Error(const std::string& text) const {
    const auto run = Of(text);
    return run ? "" : run.error().message();
  }
};

constexpr char kHeader[] =
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
    "Task Duration(us),Task Wait Time(us),Block Dim,Input Shapes,Input Data Types,Input Formats,"
    "Output Shapes,Output Data Types,Output Formats\r\n";

// A task: shapes have quotes of their own.
std::string Task(const char* name, const char* type, const char* core, double us, double wait,
                 const char* in, const char* in_types, const char* in_formats, const char* out,
                 const char* out_type, const char* out_format) {
  return fmt::format(
      "0,1,2,3,{},{},static,{},17.5,{},{},8,\"\"\"{}\"\"\",{},{},\"\"\"{}\"\"\",{},{}\r\n", name,
      type, core, us, wait, in, in_types, in_formats, out, out_type, out_format);
}

std::string Tasks(double wait) {
  return Task("trans_TransData_0", "TransData", "AI_CORE", 20, 5000, "1,3,224,224", "FLOAT16",
              "NCHW", "1,1,224,224,16", "FLOAT16", "NC1HWC0") +
         Task("conv1", "Conv2D", "AI_CORE", 100, wait, "1,1,224,224,16;147,4,16,16;64",
              "FLOAT16;FLOAT16;FLOAT", "NC1HWC0;FRACTAL_Z;ND", "1,4,112,112,16", "FLOAT16",
              "NC1HWC0") +
         Task("q", "AscendQuant", "AI_VECTOR_CORE", 7, 0, "1,4,112,112,16", "FLOAT16", "NC1HWC0",
              "1,2,112,112,32", "INT8", "NC1HWC0") +
         Task("fc", "QuantBatchMatmulV3", "MIX_AIC", 50, 0, "1,64;64,10", "INT8;INT8", "ND;ND",
              "1,10", "FLOAT16", "ND") +
         Task("cast", "Cast", "AI_VECTOR_CORE", 3, 0, "1,10", "DT_FLOAT16", "FORMAT_ND", "1,10",
              "DT_FLOAT", "FORMAT_ND") +
         "0,1,2,3,top,TopKV2,dynamic,AI_CPU,17.5,400,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A\r\n";
}

TEST_F(Msprof, TasksOfTwoRuns) {
  const auto run = Of(kHeader + Tasks(10) + Tasks(30));
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->tool, "msprof");
  EXPECT_EQ(run->note, "");
  EXPECT_TRUE(run->in_order && run->detailed);
  ASSERT_EQ(run->layers.size(), 7u);
  EXPECT_NEAR(run->layer_sum_ms, 0.020 + 0.020 + 0.1 + 0.007 + 0.05 + 0.003 + 0.4, 1e-12)
      << "the wait before the first task is not part of the run";
  EXPECT_EQ(run->layers[1].name, "before conv1");
  const ForeignLayer &conv = run->layers[2], &product = run->layers[4];
  EXPECT_EQ(conv.group, LayerGroup::kConv);
  EXPECT_EQ(conv.precision, "fp16");
  EXPECT_EQ(conv.inputs.size(), 3u);
  EXPECT_TRUE(conv.inputs[1].dims.empty()) << "blocks of a layout of its own";
  EXPECT_EQ(conv.outputs[0].dims, (std::vector<int64_t>{1, 64, 112, 112}));
  EXPECT_EQ(run->layers[3].outputs[0].dims, conv.outputs[0].dims) << "of 4 * 16 or 2 * 32";
  EXPECT_EQ(product.group, LayerGroup::kMatMul);
  EXPECT_EQ(product.conversion, Conversion::kNone);
  const auto lost = LostBy(Diagnose(*run, nullptr));
  EXPECT_NEAR(lost.at("ai-cpu"), 0.4, 1e-12);
  EXPECT_NEAR(lost.at("host-bound"), 0.02, 1e-12);
  EXPECT_NEAR(lost.at("input-conversion"), 0.02, 1e-12);
  EXPECT_NEAR(lost.at("unfused-qdq"), 0.007, 1e-12);
  EXPECT_NEAR(lost.at("reformat-copies"), 0.003, 1e-12);
  EXPECT_NEAR(lost.at("stays-float"), 0.05, 1e-12);
  EXPECT_EQ(lost.size(), 6u);
}

// torch_npu's names of columns, with steps; operators by themselves without; sums alone.
TEST_F(Msprof, OtherTables) {
  const std::string header = "Step Id,Model ID,Name,Type,Accelerator Core,Duration(us)\n";
  const auto steps = Of(header +
                        "1,4294967295,a,MatMulV2,AI_CORE,20\n1,4294967295,a,MatMulV2,AI_CORE,20\n"
                        "2,4294967295,a,MatMulV2,AI_CORE,40\n\n2,4294967295,d,DynamicQuant,X,6\n");
  ASSERT_TRUE(steps) << steps.error().message();
  EXPECT_NEAR(steps->layers[0].ms, 0.04, 1e-12);
  EXPECT_NEAR(LostBy(Diagnose(*steps, nullptr)).at("dynamic-ranges"), 0.003, 1e-12);
  const auto single = Of("Model ID,Op Name,OP Type,Task Duration(us)\n4294967295,a,Add,20\n");
  ASSERT_TRUE(single) << single.error().message();
  EXPECT_NE(single->note.find("all of it counts as one run"), std::string::npos);
  EXPECT_EQ(single->layers[0].group, LayerGroup::kElementwise);
  EXPECT_FALSE(single->detailed);
  const auto sums = Of(
      "Device_id,OP Type,Core Type,Count,Total Time(us),Ratio(%)\n0,Cast,AI_CORE,240,23000.5,1\n");
  ASSERT_TRUE(sums) << sums.error().message();
  EXPECT_EQ(sums->layers[0].name, "Cast");
  EXPECT_NEAR(sums->layer_sum_ms, 23.0005, 1e-12);
  EXPECT_FALSE(sums->in_order);
  EXPECT_NE(sums->note.find("sums over all runs"), std::string::npos);
}

TEST_F(Msprof, FoldersOfIt) {
  std::filesystem::create_directories(folder_ / "PROF_1" / "out");
  const auto error = [&] { return Source("msprof").read(folder_.string()).error().message(); };
  EXPECT_NE(error().find("no op_summary_*.csv"), std::string::npos);
  const std::string text = "OP Type,Task Duration(us)\nAdd,2\n";
  ASSERT_TRUE(WriteFileAtomic(At("PROF_1/out/op_statistic_1.csv"), std::string("a,b\n")));
  ASSERT_TRUE(WriteFileAtomic(At("PROF_1/out/op_summary_1.csv"), text));
  const auto run = Source("msprof").read(folder_.string());
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->path, At("PROF_1/out/op_summary_1.csv"));
  const auto found = FindForeignFile(At("PROF_1/out"));
  ASSERT_TRUE(found && found->source != nullptr);
  EXPECT_EQ(std::string(found->source->tool), "msprof");
  ASSERT_TRUE(WriteFileAtomic(At("PROF_1/out/op_summary_2.csv"), text));
  EXPECT_NE(error().find("op_summary_2.csv are profiles: name one of them"), std::string::npos);
}

TEST_F(Msprof, WhatIsNone) {
  EXPECT_NE(Error("").find("columns ''"), std::string::npos);
  EXPECT_NE(Error("OP Type,Count\nAdd,2\n").find("expected those of msprof's op_summary_*.csv"),
            std::string::npos);
  EXPECT_NE(Error(kHeader).find("no row behind the names"), std::string::npos);
  EXPECT_NE(Error("OP Type,Task Duration(us)\nAdd,2\nMul,soon\n")
                .find("line 3: duration 'soon', expected microseconds"),
            std::string::npos);
  EXPECT_NE(Error("OP Type,Task Duration(us),Task Wait Time(us)\nAdd,2,-1\n").find("wait '-1'"),
            std::string::npos);
  EXPECT_NE(Error("OP Type,Task Duration(us)\n" + std::string(2 << 20, 'a')).find("line 2: over"),
            std::string::npos);
  // Short rows, quotes that stay open, sizes that no machine has.
  const auto odd =
      Of(std::string(kHeader) + "0,1\n" +
         Task("\"a", "Conv2D", "x", 1, 0, "9999999999999999999,-2,,x", "FLOAT16", "NC1HWC0",
              "1099511627776,1099511627776,1,1,1099511627776", "INT8", "NC1HWC0"));
  ASSERT_TRUE(odd) << odd.error().message();
}

}  // namespace
}  // namespace evoq
