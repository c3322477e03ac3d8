// cpu.blocks: rows of blocks as f32. Door: ../implementation.h.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/walk.h"

namespace headwise {
namespace {

// Elements: whole blocks of every encoding.
constexpr int64_t kBlocksPerTask = 32768;
static_assert(std::ranges::all_of(kEncodings,
                                  [](const ElementEncoding& encoding) {
                                    return kBlocksPerTask % encoding.block == 0;
                                  }));

Reason WhyNotBlocks(const CopyCall& call) {
  if (!IsOnHost(call)) return "runs on the CPU only";
  if (call.kind != CopyKind::kCopy) return "knows no rows";
  if (EncodingOf(call.from.type).plain()) return "reads blocks only";
  if (call.to.type != DType::kF32) return "writes f32 only";
  return Walk<2>({call.from, call.to}).step() == std::array<int64_t, 2>{1, 1}
             ? ""
             : "reads elements that lie together only";
}

void RunBlocks(Context& context, const CopyCall& call) {
  const ElementEncoding& encoding = EncodingOf(call.from.type);
  const Walk<2> walk({call.from, call.to});
  const auto* const from = call.from.Raw<std::byte>();
  float* const to = call.to.Raw<float>();
  const int64_t tasks = (walk.size() + kBlocksPerTask - 1) / kBlocksPerTask;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t begin = task * kBlocksPerTask;
    const int64_t end = std::min(walk.size(), begin + kBlocksPerTask);
    walk.ForRuns(begin, end, [&](const auto& places, int64_t count) {
      encoding.to_float(from + ByteOffset(encoding.type, places[0]), count,
                        to + places[1]);
    });
  });
}

}  // namespace

const Implementation<CopyCall> kCopyCpuBlocks = {
    .name = "cpu.blocks", .why_not = WhyNotBlocks, .run = RunBlocks};

}  // namespace headwise
