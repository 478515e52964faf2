// PNG through libpng. libpng reports errors by longjmp, so that the functions that hold a setjmp
// have no object with a destructor.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "data/image_decode.h"

namespace evoq {
namespace {

struct PngReader {
  png_structp png;
  png_infop info;
  const std::byte* next;
  size_t left;
  char message[200];
};

[[noreturn]] void OnError(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message, sizeof(reader->message), "%s", text);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep out, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->left) png_error(png, "the file ends too early");
  std::memcpy(out, reader->next, count);
  reader->next += count;
  reader->left -= count;
}

// Header, and the conversions to 8-bit RGB: palettes and small gray depths expanded, 16 bits cut to
// the high byte, alpha dropped without blending. False: reader->message says why.
bool ReadHeader(PngReader* reader) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  png_set_read_fn(reader->png, reader, ReadBytes);
  // Only what holds pixels is read: texts and profiles unpack to megabytes each and would all be
  // kept.
  png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader->png, reader->info);
  const int color = png_get_color_type(reader->png, reader->info);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader->png);
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader->png);
  png_set_strip_16(reader->png);
  if (!(color & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(reader->png);
  png_set_strip_alpha(reader->png);
  return true;
}

bool ReadRows(PngReader* reader, uint8_t** rows, size_t row_bytes) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  png_set_interlace_handling(reader->png);
  png_read_update_info(reader->png, reader->info);
  if (png_get_rowbytes(reader->png, reader->info) != row_bytes)
    png_error(reader->png, "unexpected pixel format");
  png_read_image(reader->png, rows);
  png_read_end(reader->png, nullptr);
  return true;
}

}  // namespace

Result<Image> DecodePng(std::span<const std::byte> bytes, Budget& budget) {
  PngReader reader = {};
  reader.next = bytes.data();
  reader.left = bytes.size();
  struct Destroy {
    PngReader* reader;
    ~Destroy() { png_destroy_read_struct(&reader->png, &reader->info, nullptr); }
  } destroy{&reader};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, OnError, OnWarning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) return Fail(ErrorCode::kTooLarge, "libpng has no memory left");
  if (!ReadHeader(&reader)) return InvalidInput("corrupt PNG: {}", reader.message);
  EVOQ_ASSIGN(Image image, AllocateRgb(png_get_image_width(reader.png, reader.info),
                                       png_get_image_height(reader.png, reader.info), budget));
  const size_t row_bytes = static_cast<size_t>(image.width) * 3;
  std::vector<uint8_t*> rows(image.height);
  for (int y = 0; y < image.height; ++y) rows[y] = image.pixels.data() + y * row_bytes;
  if (!ReadRows(&reader, rows.data(), row_bytes))
    return InvalidInput("corrupt or truncated PNG: {}", reader.message);
  return image;
}

}  // namespace evoq
