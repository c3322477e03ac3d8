// Checked ids. Door: token_ids.h.
#include "headwise/format/token_ids.h"

#include <limits>

#include "headwise/error.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

[[noreturn]] void Refuse(const std::string& where, int64_t most, int64_t id,
                         int64_t index) {
  throw Error(ErrorCode::kInvalidArgument,
              {where, "token ids from 0 to " + std::to_string(most),
               std::to_string(id) + " at place " + std::to_string(index),
               "do they belong to this model?"});
}

}  // namespace

int64_t IntegerAt(const ConstTensorView& view, int64_t index,
                  const std::string& where) {
  switch (view.type) {
    case DType::kI64:
      return LoadUnaligned<int64_t>(view.data, index);
    case DType::kI32:
      return LoadUnaligned<int32_t>(view.data, index);
    case DType::kI16:
      return LoadUnaligned<int16_t>(view.data, index);
    case DType::kI8:
      return LoadUnaligned<int8_t>(view.data, index);
    case DType::kBool:
    case DType::kU8:
      return LoadUnaligned<uint8_t>(view.data, index);
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  {where, "a tensor of whole numbers", ToString(view), ""});
  }
}

int32_t TokenIdAt(const ConstTensorView& view, int64_t index,
                  const std::string& where) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t id = IntegerAt(view, index, where);
  if (id < 0 || id > kMost) Refuse(where, kMost, id, index);
  return static_cast<int32_t>(id);
}

void RequireTokenIds(std::span<const int32_t> ids, int64_t vocabulary,
                     const std::string& where) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      Refuse(where, vocabulary - 1, ids[i], static_cast<int64_t>(i));
    }
  }
}

}  // namespace headwise
