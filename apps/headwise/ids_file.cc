// Reading ids. Door: ids_file.h.
#include "ids_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "headwise/error.h"
#include "headwise/format/token_ids.h"

namespace headwise {

std::vector<std::vector<int32_t>> ReadIdRows(const Safetensors& file,
                                             const char* ids, const char* mask,
                                             int64_t least) {
  const ConstTensorView values = file.At(ids);
  const ConstTensorView kept = file.Find(mask);
  if (values.rank != 2 ||
      (kept && (kept.rank != 2 || kept.shape != values.shape))) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {file.where(),
         fmt::format("\"{}\" and \"{}\" to be [sequences, tokens]", ids, mask),
         ToString(values), ""});
  }
  if (values.shape[0] == 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {file.where(), fmt::format("sequences in \"{}\"", ids), "none", ""});
  }
  // Rows of no tokens cost the file nothing, and memory each.
  if (values.shape[1] < std::max<int64_t>(least, 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                {file.where(),
                 fmt::format("at least {} tokens in each sequence", least),
                 std::to_string(values.shape[1]), ""});
  }
  std::vector<std::vector<int32_t>> rows(values.shape[0]);
  for (int64_t b = 0; b < values.shape[0]; ++b) {
    int64_t last = -1;
    for (int64_t i = 0; i < values.shape[1]; ++i) {
      const int64_t at = b * values.shape[1] + i;
      if (kept && IntegerAt(kept, at, file.where()) == 0) continue;
      if (last >= 0 && last + 1 < i) {
        throw Error(
            ErrorCode::kInvalidArgument,
            {file.where(), "padding before or after a sequence",
             fmt::format("some before token {} of sequence {}", i, b), ""});
      }
      rows[b].push_back(TokenIdAt(values, at, file.where()));
      last = i;
    }
    if (std::ssize(rows[b]) < least) {
      throw Error(ErrorCode::kInvalidArgument,
                  {file.where(),
                   fmt::format("at least {} tokens in each sequence", least),
                   fmt::format("{} in sequence {}", rows[b].size(), b), ""});
    }
  }
  return rows;
}

IdPlaces ReadIdPlaces(const Safetensors& file, const char* ids,
                      const char* mask) {
  const ConstTensorView values = file.At(ids), kept = file.Find(mask);
  const int64_t count = values.shape[0], width = values.shape[1];
  IdPlaces places = {width, std::vector<int64_t>(count, 0)};
  for (int64_t b = 0; kept && b < count; ++b) {
    int64_t& first = places.first[b];
    while (IntegerAt(kept, b * width + first, file.where()) == 0) ++first;
  }
  return places;
}

std::vector<std::vector<int32_t>> ReadIds(const std::string& path,
                                          int64_t vocabulary) {
  std::vector<std::vector<int32_t>> rows =
      ReadIdRows(Safetensors::Open(path), "input_ids", "attention_mask", 2);
  for (const std::vector<int32_t>& row : rows) {
    RequireTokenIds(row, vocabulary, path);
  }
  return rows;
}

}  // namespace headwise
