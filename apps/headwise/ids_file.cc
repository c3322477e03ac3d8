// Reading ids. Door: ids_file.h.
#include "ids_file.h"

#include <fmt/core.h>

#include <algorithm>

#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace headwise {

int64_t IntegerAt(const ConstTensorView& view, int64_t index) {
  switch (view.type) {
    case DType::kI32:
      return view.As<int32_t>()[index];
    case DType::kI64:
      return view.As<int64_t>()[index];
    case DType::kBool:
    case DType::kU8:
      return view.As<uint8_t>()[index];
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  {"ids", "ids and masks of integers", ToString(view), ""});
  }
}

std::vector<TokenWindow> ReadIds(const std::string& path, int64_t context) {
  const Safetensors file = Safetensors::Open(path);
  const ConstTensorView ids = file.At("input_ids");
  const ConstTensorView mask = file.Find("attention_mask");
  if (ids.rank != 2 || (mask && (mask.rank != 2 || mask.shape != ids.shape))) {
    throw Error(ErrorCode::kInvalidArgument,
                {path, "input_ids and attention_mask [sequences, tokens]",
                 ToString(ids), ""});
  }
  std::vector<TokenWindow> windows;
  for (int64_t b = 0; b < ids.shape[0]; ++b) {
    std::vector<int32_t> row;
    for (int64_t i = 0; i < ids.shape[1]; ++i) {
      const int64_t at = b * ids.shape[1] + i;
      if (mask && IntegerAt(mask, at) == 0) continue;
      row.push_back(static_cast<int32_t>(IntegerAt(ids, at)));
    }
    const int64_t size = static_cast<int64_t>(row.size());
    if (size < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  {path, "at least two tokens in each sequence",
                   fmt::format("{} in sequence {}", size, b), ""});
    }
    const int64_t step = context > 0 ? context : size;
    for (int64_t begin = 0; begin + 1 < size; begin += step) {
      const int64_t end = std::min(size, begin + step);
      windows.push_back(WindowOfIds({row.begin() + begin, row.begin() + end}));
    }
  }
  return windows;
}

}  // namespace headwise
