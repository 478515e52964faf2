// What msprof of Huawei's CANN exports (mindstudio_profiler_output): op_summary_*.csv, a row for
// each task of each run, or, where that is missing, op_statistic_*.csv, sums by operator. torch_npu
// writes the first as kernel_details.csv, under other names of columns:
//   Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),...
//   Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),...
//   ...,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats
//   OP Type,Core Type,Count,Total Time(us),...
// Shapes are "1,3,224,224;64" between quotes, types and formats FLOAT16;FLOAT16 (DT_FLOAT16 and
// FORMAT_ND in some versions), N/A where they are not told. Wait is what lies between the end of
// the task before and the begin of this one.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/brief.h"
#include "base/file.h"
#include "foreign/profiles/number_text.h"
#include "foreign/profiles/source.h"

namespace evoq {
namespace {

constexpr std::string_view kSingleOperators = "4294967295";  // the model of operators by themselves

// The fields of a line; within quotes, two stand for one.
std::vector<std::string> FieldsOf(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

class Table {
 public:
  explicit Table(const std::string& header) {
    const std::vector<std::string> names = FieldsOf(header);
    for (size_t i = 0; i < names.size(); ++i) columns_.emplace(names[i], i);
  }

  bool has(const char* name) const { return columns_.contains(name); }
  // Of the first of these columns that there is; "" where it says N/A.
  std::string Text(const std::vector<std::string>& row,
                   std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const auto it = columns_.find(name);
      if (it == columns_.end()) continue;
      const std::string text = it->second < row.size() ? row[it->second] : "";
      return text == "N/A" ? "" : text;
    }
    return "";
  }

 private:
  std::map<std::string, size_t, std::less<>> columns_;
};

std::vector<std::string> Parts(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Sizes of blocked channels as those of the tensor: [N, C1, H, W, C0] has C1 * C0 channels. Of
// other layouts of its own nothing.
std::vector<int64_t> SizesOf(const std::string& text, const std::string& format) {
  std::vector<int64_t> sizes;
  for (const std::string& part : Parts(text, ',')) {
    const int64_t size = std::strtoll(part.c_str(), nullptr, 10);
    if (size < 0 || size > int64_t{1} << 40) return {};
    sizes.push_back(size);
  }
  if (format == "NC1HWC0" && sizes.size() == 5) {
    int64_t channels = 0;
    if (__builtin_mul_overflow(sizes[1], sizes[4], &channels)) return {};
    return {sizes[0], channels, sizes[2], sizes[3]};
  }
  return format == "ND" || format.find('1') == format.npos ? sizes : std::vector<int64_t>();
}

std::vector<ForeignTensor> TensorsOf(const std::string& shapes, const std::string& types,
                                     const std::string& formats) {
  const std::vector<std::string> all_sizes = Parts(shapes, ';'), all_types = Parts(types, ';'),
                                 all_formats = Parts(formats, ';');
  std::vector<ForeignTensor> tensors;
  for (size_t i = 0; i < all_types.size(); ++i) {
    std::string format = i < all_formats.size() ? all_formats[i] : "";
    if (format.starts_with("FORMAT_")) format.erase(0, 7);
    ForeignTensor tensor{.precision = PrecisionIn(all_types[i])};
    tensor.format = format + " " + all_types[i];
    const bool fractal = format.starts_with("FRACTAL");
    if (i < all_sizes.size() && !fractal) tensor.dims = SizesOf(all_sizes[i], format);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Conversion ConversionOf(const ForeignLayer& layer) {
  const std::string type = LowerCase(layer.type);
  const auto has = [&](const char* word) { return type.find(word) != type.npos; };
  if (has("matmul") || has("conv")) return Conversion::kNone;  // QuantBatchMatmulV3
  if (has("dequant") || has("antiquant")) return Conversion::kDequantize;
  if (has("quant")) return Conversion::kQuantize;
  return has("transdata") || type == "cast" ? Conversion::kReformat : Conversion::kNone;
}

ForeignLayer LayerOf(const Table& table, const std::vector<std::string>& row) {
  ForeignLayer layer;
  layer.name = table.Text(row, {"Op Name", "Name"});
  layer.type = table.Text(row, {"OP Type", "Type"});
  layer.where = table.Text(row, {"Task Type", "Accelerator Core", "Core Type"});
  layer.inputs = TensorsOf(table.Text(row, {"Input Shapes"}), table.Text(row, {"Input Data Types"}),
                           table.Text(row, {"Input Formats"}));
  layer.outputs =
      TensorsOf(table.Text(row, {"Output Shapes"}), table.Text(row, {"Output Data Types"}),
                table.Text(row, {"Output Formats"}));
  if (!layer.inputs.empty()) layer.precision = layer.inputs[0].precision;
  layer.conversion = ConversionOf(layer);
  layer.group =
      layer.conversion == Conversion::kNone ? GroupOf(layer.type, "") : LayerGroup::kReformatQdq;
  layer.weights_told = layer.group != LayerGroup::kConv && layer.group != LayerGroup::kMatMul;
  layer.operators = {layer.name};
  return layer;
}

// Microseconds; a field that is empty or N/A is 0.
Result<double> Microseconds(const std::string& text, const char* what) {
  if (text.empty()) return 0.0;
  const auto us = NumberOf(text);
  if (us && *us >= 0) return *us;
  return InvalidInput("{} '{}', expected microseconds", what, Shorten(text));
}

// Rows by operator: sums over all runs.
class Rows {
 public:
  explicit Rows(const Table& table)
      : table_(table), sums_(!table.has("Task Duration(us)") && !table.has("Duration(us)")) {}

  Status Take(const std::vector<std::string>& row) {
    EVOQ_ASSIGN(
        const double us,
        Microseconds(table_.Text(row, {"Task Duration(us)", "Duration(us)", "Total Time(us)"}),
                     "duration"));
    EVOQ_ASSIGN(const double wait,
                Microseconds(table_.Text(row, {"Task Wait Time(us)", "Wait Time(us)"}), "wait"));
    ForeignLayer layer = LayerOf(table_, row);
    const std::string model = table_.Text(row, {"Model ID"});
    if (layer.name.empty()) layer.name = layer.type;
    single_ = single_ || model == kSingleOperators;
    steps_.insert(table_.Text(row, {"Step ID", "Step Id"}));
    const auto [it, is_new] =
        index_.try_emplace(fmt::format("{} {} {}", model, layer.name, layer.type), layers_.size());
    if (is_new) layers_.push_back({std::move(layer), 0, 0, 0});
    Sum& sum = layers_[it->second];
    sum.us += us;
    // What lies before a run's first task is not part of the run.
    if (it->second > 0) sum.wait_us += wait;
    ++sum.count;
    return {};
  }

  ForeignRun Finish() {
    ForeignRun run;
    const double runs = 1e3 * RunsOf(run);
    for (Sum& sum : layers_) {
      if (sum.wait_us > 0) {
        ForeignLayer host{.name = "before " + sum.layer.name, .type = kHostLayer, .where = "host"};
        host.ms = sum.wait_us / runs;
        run.layers.push_back(std::move(host));
      }
      sum.layer.ms = sum.us / runs;
      run.detailed = run.detailed || !sum.layer.inputs.empty();
      run.layers.push_back(std::move(sum.layer));
    }
    run.in_order = !sums_;
    return run;
  }

 private:
  struct Sum {
    ForeignLayer layer;
    double us, wait_us;
    int64_t count;
  };

  // Steps that the file tells, or how often most operators of a whole model ran.
  double RunsOf(ForeignRun& run) const {
    if (sums_) {
      run.note = "the file has sums over all runs, not of one";
      return 1;
    }
    if (steps_.size() > 1) return static_cast<double>(steps_.size());
    if (single_) {
      run.note =
          "operators ran by themselves, not as a model, and the file tells no steps: all of "
          "it counts as one run";
      return 1;
    }
    std::vector<int64_t> counts;
    for (const Sum& sum : layers_) counts.push_back(sum.count);
    std::ranges::nth_element(counts, counts.begin() + static_cast<ptrdiff_t>(counts.size() / 2));
    return static_cast<double>(counts[counts.size() / 2]);
  }

  const Table& table_;
  const bool sums_;
  bool single_ = false;
  std::set<std::string> steps_;
  std::map<std::string, size_t> index_;
  std::vector<Sum> layers_;  // in the order of the file
};

Result<ForeignRun> FromText(const std::string& text) {
  constexpr size_t kLongest = size_t{1} << 20;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto trim = [&] {
    if (!line.empty() && line.back() == '\r') line.pop_back();
  };
  trim();
  if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // spreadsheets write it
  const Table table(line);
  const bool named = table.has("OP Type") || table.has("Type");
  const bool timed =
      table.has("Task Duration(us)") || table.has("Duration(us)") || table.has("Total Time(us)");
  if (!named || !timed)
    return InvalidInput(
        "columns '{}', expected those of msprof's op_summary_*.csv (OP Type, Task Duration(us)), "
        "kernel_details.csv (Type, Duration(us)) or op_statistic_*.csv (OP Type, Total Time(us))",
        Shorten(line));
  Rows rows(table);
  bool any = false;
  for (int64_t number = 2; std::getline(lines, line); ++number) {
    trim();
    if (line.empty()) continue;
    if (line.size() > kLongest) return InvalidInput("line {}: over {} bytes", number, kLongest);
    EVOQ_TRY(WithContext(rows.Take(FieldsOf(line)), fmt::format("line {}", number)));
    any = true;
  }
  if (!any) return InvalidInput("no row behind the names of the columns");
  return rows.Finish();
}

// The file, or in a folder, at any depth, the one that tells most.
Result<std::string> FileAt(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return path;
  EVOQ_ASSIGN(const std::vector<std::string> files, ListFilesBelow(path));
  for (const char* name : {"op_summary", "kernel_details", "op_statistic"}) {
    std::vector<std::string> found;
    for (const std::string& file : files) {
      if (BaseName(file).starts_with(name) && LowerExtension(file) == ".csv") found.push_back(file);
    }
    if (found.size() == 1) return (std::filesystem::path(path) / found[0]).string();
    if (found.size() > 1)
      return InvalidInput("{}: {} and {} are profiles: name one of them", path, found[0], found[1]);
  }
  return InvalidInput(
      "{}: no op_summary_*.csv, kernel_details.csv or op_statistic_*.csv in it; expected what "
      "msprof --export=on writes (mindstudio_profiler_output)",
      path);
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const std::string file, FileAt(path));
  EVOQ_ASSIGN(const std::string text, ReadTextFile(file));
  EVOQ_ASSIGN(ForeignRun run, WithContext(FromText(text), file));
  run.tool = "msprof";
  run.path = file;
  run.excess = "the time of tasks beside each other";
  Summarize(run);
  return run;
}

}  // namespace

extern const ForeignSource kSourceMsprof = {
    .tool = "msprof",
    .option = "--msprof",
    .takes = "DIR",
    .doc = "op_summary_*.csv of CANN's msprof, or the folder with it",
    .marks = {"Task Duration(us)", "Accelerator Core,Start Time(us)", "OP Type,Core Type,Count"},
    .read = Read,
};

}  // namespace evoq
