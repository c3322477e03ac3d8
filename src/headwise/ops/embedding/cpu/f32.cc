// cpu.f32: rows of f32, bf16 and f16 tables as f32. Door: ../implementation.h.
#include <algorithm>
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/embedding/implementation.h"
#include "headwise/ops/ids.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

constexpr int64_t kRowsPerTask = 64;
constexpr int64_t kColumnsPerTask = 16;  // a cache line

float Same(float x) { return x; }

// out: [width], row `id` of the table, or that added to it.
template <typename T, float (*kToFloat)(T)>
void TakeRowOf(const ConstTensorView& table, int64_t id, EmbeddingWrite write,
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
  if (table.type == DType::kF32) {
    TakeRowOf<float, Same>(table, id, write, out);
  } else if (table.type == DType::kBF16) {
    TakeRowOf<uint16_t, FromBf16>(table, id, write, out);
  } else {
    TakeRowOf<uint16_t, FromF16>(table, id, write, out);
  }
}

void Forward(Context& context, const EmbeddingCall& call) {
  const EmbeddingArgs& a = call.args;
  const int64_t count = a.ids.shape[0];
  const int64_t tasks = (count + kRowsPerTask - 1) / kRowsPerTask;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * kRowsPerTask);
    for (int64_t n = task * kRowsPerTask; n < end; ++n) {
      TakeRow(a.table, IdAt(a.ids, n), call.problem.write,
              a.out.Raw<float>() + n * a.out.stride[0]);
    }
  });
}

void Backward(Context& context, const EmbeddingCall& call) {
  const auto& [dout, dtable] = *call.grads;
  const ConstTensorView& ids = call.args.ids;
  const float* from = dout.Raw<float>();
  float* to = dtable.Raw<float>();
  const int64_t from_stride = dout.stride[0], to_stride = dtable.stride[0];
  const int64_t count = dout.shape[0], width = dtable.shape[1];
  // Tasks own columns, so that equal ids add up in one order.
  const int64_t tasks = (width + kColumnsPerTask - 1) / kColumnsPerTask;
  context.pool().ParallelFor(tasks, [=, &ids](int64_t task, int) {
    const int64_t begin = task * kColumnsPerTask;
    const int64_t end = std::min(width, begin + kColumnsPerTask);
    for (int64_t n = 0; n < count; ++n) {
      const float* source = from + n * from_stride;
      float* row = to + IdAt(ids, n) * to_stride;
      for (int64_t i = begin; i < end; ++i) row[i] += source[i];
    }
  });
}

Reason WhyNot(const EmbeddingCall& call) {
  // ids are where the others are, of which a table may have any type.
  if (!call.args.ids.device.is_cpu()) return "runs on the CPU only";
  return WhyNotOnHost(DType::kF32,
                      {call.grads == nullptr ? ConstTensorView(call.args.out)
                                             : call.grads->dout});
}

void Run(Context& context, const EmbeddingCall& call) {
  call.grads == nullptr ? Forward(context, call) : Backward(context, call);
}

}  // namespace

const Implementation<EmbeddingCall> kEmbeddingCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
