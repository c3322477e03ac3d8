// Embedding look-up. Door: embedding.h.
#include "headwise/ops/embedding/embedding.h"

#include <algorithm>
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

constexpr int64_t kRowsPerTask = 64;
constexpr int64_t kColumnsPerTask = 16;  // a cache line

void CheckIds(std::span<const int32_t> ids, int64_t rows) {
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] >= 0 && ids[t] < rows) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"embedding", "ids in [0, " + std::to_string(rows) + ")",
                 std::to_string(ids[t]) + " at position " + std::to_string(t),
                 "does the tokenizer belong to this model?"});
  }
}

float Same(float x) { return x; }

// out: [width], row `id` of the table, or that added to it.
template <typename T, float (*kToFloat)(T)>
void TakeRow(const ConstTensorView& table, int64_t id, EmbeddingWrite write,
             float* out) {
  const int64_t from = id * table.stride[0];
  const auto value = [&](int64_t i) {
    return kToFloat(LoadUnaligned<T>(table.data, from + i));
  };
  const int64_t width = table.shape[1];
  if (write == EmbeddingWrite::kAdd) {
    for (int64_t i = 0; i < width; ++i) out[i] += value(i);
  } else {
    for (int64_t i = 0; i < width; ++i) out[i] = value(i);
  }
}

void TakeRow(const ConstTensorView& table, int64_t id, EmbeddingWrite write,
             float* out) {
  switch (table.type) {
    case DType::kF32:
      return TakeRow<float, Same>(table, id, write, out);
    case DType::kBF16:
      return TakeRow<uint16_t, FromBf16>(table, id, write, out);
    case DType::kF16:
      return TakeRow<uint16_t, FromF16>(table, id, write, out);
    default:
      throw Error(
          ErrorCode::kInvalidArgument,
          {"embedding", "a table of f32, bf16 or f16", Name(table.type), ""});
  }
}

}  // namespace

void EmbeddingForward(Context& context, ConstTensorView table,
                      std::span<const int32_t> ids, TensorView out,
                      EmbeddingWrite write) {
  CheckIds(ids, table.shape[0]);
  const int64_t count = static_cast<int64_t>(ids.size());
  const int64_t tasks = (count + kRowsPerTask - 1) / kRowsPerTask;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * kRowsPerTask);
    for (int64_t t = task * kRowsPerTask; t < end; ++t) {
      TakeRow(table, ids[t], write, out.As<float>() + t * out.stride[0]);
    }
  });
}

void EmbeddingBackward(Context& context, ConstTensorView dout,
                       std::span<const int32_t> ids, TensorView dtable) {
  CheckIds(ids, dtable.shape[0]);
  const int64_t width = dtable.shape[1];
  // Tasks own columns, so that equal ids add up in one order.
  const int64_t tasks = (width + kColumnsPerTask - 1) / kColumnsPerTask;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t begin = task * kColumnsPerTask;
    const int64_t end = std::min(width, begin + kColumnsPerTask);
    for (size_t t = 0; t < ids.size(); ++t) {
      const float* from =
          dout.As<float>() + static_cast<int64_t>(t) * dout.stride[0];
      float* to = dtable.As<float>() + ids[t] * dtable.stride[0];
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  });
}

}  // namespace headwise
