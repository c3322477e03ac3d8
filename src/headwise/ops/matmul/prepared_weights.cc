// Weights for many products. Doors: matmul.h, prepared_weights.h.
#include "headwise/ops/matmul/prepared_weights.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/half_rows.h"

namespace headwise {

PreparedWeights::PreparedWeights(std::vector<ConstTensorView> parts,
                                 Operand operand, std::function<void()> release)
    : parts_(std::move(parts)),
      operand_(operand),
      release_(std::move(release)) {
  const int out = operand == Operand::kTransposed ? 0 : 1;
  for (const ConstTensorView& part : parts_) {
    const bool fits = part && part.rank == 2 && part.stride[1] == 1 &&
                      (part.type == DType::kF32 || part.type == DType::kBF16 ||
                       part.type == DType::kF16) &&
                      (n_ == 0 || part.shape[1 - out] == k_);
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"matmul",
                   "weights as f32, bf16 or f16 matrices of one depth with a "
                   "last stride of 1",
                   part ? ToString(part) : "none", ""});
    }
    n_ += part.shape[out];
    k_ = part.shape[1 - out];
  }
}

size_t PreparedWeights::bytes() const {
  size_t bytes = 0;
  for (const Slot& slot : slots_) {
    const WeightForm* const made = slot.made.load(std::memory_order_acquire);
    if (made != nullptr) bytes += made->bytes();
  }
  return bytes;
}

std::shared_ptr<PreparedWeights> Prepare(std::vector<ConstTensorView> parts,
                                         Operand operand,
                                         std::function<void()> release) {
  return std::make_shared<PreparedWeights>(std::move(parts), operand,
                                           std::move(release));
}

void KeepTogether(std::span<const std::shared_ptr<PreparedWeights>> weights) {
  size_t bytes = 0;
  for (const auto& one : weights) bytes += HalfLinesBytes(*one);
  if (bytes == 0) return;
  const auto memory = std::make_shared<LargeMemory>(bytes);
  for (const auto& one : weights) one->set_memory(memory);
}

void Expect(Context& context, const PreparedWeights& weights, int64_t rows) {
  context.device().is_cpu() ? ExpectHalfLines(context, weights, rows)
                            : ExpectOnDevice(context, weights, rows);
}

size_t PreparedBytes(const PreparedWeights& weights) { return weights.bytes(); }

PreparedWeights::Kind CudaKindOf(DType type) {
  switch (type) {
    case DType::kBF16:
      return PreparedWeights::Kind::kCudaBf16;
    case DType::kF16:
      return PreparedWeights::Kind::kCudaF16;
    default:
      return PreparedWeights::Kind::kCudaF32;
  }
}

size_t MissingBytes(const PreparedWeights& weights, Device device, DType type) {
  const auto lies_there = [&](const ConstTensorView& part) {
    return weights.operand() == Operand::kTransposed && part.device == device &&
           part.type == type;
  };
  if (device.is_cpu() || weights.Made(CudaKindOf(type)) != nullptr ||
      std::ranges::all_of(weights.parts(), lies_there)) {
    return 0;
  }
  return static_cast<size_t>(BytesOf(type, weights.n() * weights.k()));
}

}  // namespace headwise
