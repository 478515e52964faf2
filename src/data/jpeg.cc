// JPEG through libjpeg-turbo. libjpeg reports errors by longjmp, so that everything between setjmp
// and the calls is plain data: the functions that hold a setjmp have no object with a destructor.
#include <csetjmp>
#include <cstdio>
// clang-format off: each needs what stands above it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <string>

#include "base/math.h"
#include "data/image_decode.h"

namespace evoq {
namespace {

struct JpegReader {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  Budget* budget;
  bool over_budget;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void Escape(j_common_ptr info) {
  auto* reader = static_cast<JpegReader*>(info->client_data);
  info->err->format_message(info, reader->message);
  std::longjmp(reader->escape, 1);
}

// Warnings that mean lost pixels are errors; harmless ones (bytes between markers, odd version
// numbers) are not.
void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC: Escape(info);
    default: break;
  }
}

void Nothing(j_decompress_ptr) {}

// All bytes were given at once: asking for more means that the file ends too early.
boolean OutOfData(j_decompress_ptr info) {
  info->err->msg_code = JWRN_JPEG_EOF;
  Escape(reinterpret_cast<j_common_ptr>(info));
}

void Skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > info->src->bytes_in_buffer) OutOfData(info);
  info->src->next_input_byte += count;
  info->src->bytes_in_buffer -= count;
}

// Called before each row of blocks of each scan: a progressive file may have thousands of scans,
// each over the whole image.
void OnProgress(j_common_ptr common) {
  auto* reader = static_cast<JpegReader*>(common->client_data);
  const int64_t pixels =
      int64_t{reader->info.image_width} * reader->info.max_v_samp_factor * DCTSIZE;
  if (reader->budget->TakeWork(pixels, "").has_value()) return;
  std::snprintf(reader->message, sizeof(reader->message),
                "JPEG: scan %d of %u x %u pixels is more work than a file of this size may cost",
                reader->info.input_scan_number, reader->info.image_width,
                reader->info.image_height);
  reader->over_budget = true;
  std::longjmp(reader->escape, 1);
}

void Start(JpegReader* reader, std::span<const std::byte> bytes, Budget* budget) {
  reader->info.err = jpeg_std_error(&reader->errors);
  reader->errors.error_exit = Escape;
  reader->errors.emit_message = OnMessage;
  reader->info.client_data = reader;
  reader->source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  reader->source.bytes_in_buffer = bytes.size();
  reader->source.init_source = Nothing;
  reader->source.fill_input_buffer = OutOfData;
  reader->source.skip_input_data = Skip;
  reader->source.resync_to_restart = jpeg_resync_to_restart;
  reader->source.term_source = Nothing;
  reader->progress.progress_monitor = OnProgress;
  reader->budget = budget;
}

// The decoder and the header. False: reader->message says why.
bool ReadHeader(JpegReader* reader) {
  if (setjmp(reader->escape)) return false;
  jpeg_create_decompress(&reader->info);
  reader->info.client_data = reader;
  reader->info.src = &reader->source;
  jpeg_read_header(&reader->info, TRUE);
  reader->info.dct_method = JDCT_ISLOW;
  reader->info.out_color_space = reader->info.num_components == 4 ? JCS_CMYK : JCS_RGB;
  return true;
}

// All rows, `channels` bytes a pixel (3, or 4 for CMYK), into `rows`.
bool ReadRows(JpegReader* reader, uint8_t* rows, size_t row_bytes) {
  if (setjmp(reader->escape)) return false;
  reader->info.progress = &reader->progress;
  jpeg_start_decompress(&reader->info);
  reader->info.progress = nullptr;
  while (reader->info.output_scanline < reader->info.output_height) {
    JSAMPROW row = rows + reader->info.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader->info, &row, 1);
  }
  return true;
}

// What the decoder keeps of a file of several scans until the last: 64 coefficients of 16 bits for
// each block.
int64_t CoefficientBytes(jpeg_decompress_struct& info) {
  if (!jpeg_has_multiple_scans(&info)) return 0;
  int64_t blocks = 0;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& c = info.comp_info[i];
    blocks +=
        RoundUp(c.width_in_blocks, c.h_samp_factor) * RoundUp(c.height_in_blocks, c.v_samp_factor);
  }
  return blocks * DCTSIZE2 * static_cast<int64_t>(sizeof(JCOEF));
}

// round(a * b / 255) for bytes.
int MulDiv255(int a, int b) {
  const int t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

// Inverted (Adobe) CMYK, the only convention in JPEG files, to RGB with Pillow's arithmetic.
void CmykToRgb(const std::vector<uint8_t>& cmyk, Image& image) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const int not_black = cmyk[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = static_cast<uint8_t>(
          std::clamp(not_black - MulDiv255(255 - cmyk[4 * i + c], not_black), 0, 255));
    }
  }
}

}  // namespace

Result<Image> DecodeJpeg(std::span<const std::byte> bytes, Budget& budget) {
  JpegReader reader = {};
  struct Destroy {
    JpegReader* reader;
    ~Destroy() { jpeg_destroy_decompress(&reader->info); }
  } destroy{&reader};
  Start(&reader, bytes, &budget);
  if (!ReadHeader(&reader)) return InvalidInput("corrupt JPEG: {}", reader.message);
  EVOQ_ASSIGN(Image image, AllocateRgb(reader.info.image_width, reader.info.image_height, budget));
  EVOQ_TRY(budget.TakeMemory(CoefficientBytes(reader.info), "coefficients of a progressive JPEG"));
  const bool cmyk = reader.info.out_color_space == JCS_CMYK;
  if (cmyk)
    EVOQ_TRY(budget.TakeMemory(static_cast<int64_t>(image.pixels.size()) / 3 * 4,
                               "pixels of a CMYK JPEG"));
  std::vector<uint8_t> four(cmyk ? image.pixels.size() / 3 * 4 : 0);
  uint8_t* rows = cmyk ? four.data() : image.pixels.data();
  if (!ReadRows(&reader, rows, static_cast<size_t>(image.width) * (cmyk ? 4 : 3))) {
    if (reader.over_budget) return Fail(ErrorCode::kTooLarge, "{}", reader.message);
    return InvalidInput("corrupt or truncated JPEG: {}", reader.message);
  }
  if (cmyk) CmykToRgb(four, image);
  return image;
}

}  // namespace evoq
