// Weights for many products. Doors: matmul.h, prepared_weights.h.
#include "headwise/ops/matmul/prepared_weights.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/half_rows.h"
#include "headwise/ops/matmul/implementation.h"

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

PreparedWeights::~PreparedWeights() {
  const WeightForm* form = forms_.load(std::memory_order_acquire);
  while (form != nullptr) {
    const std::unique_ptr<const WeightForm> last(form);
    form = last->next_;
  }
  if (budget_ != nullptr) budget_->Give(charged_);
}

size_t PreparedWeights::bytes() const {
  size_t bytes = 0;
  const WeightForm* form = forms_.load(std::memory_order_acquire);
  for (; form != nullptr; form = form->next_) bytes += form->bytes();
  return bytes;
}

const WeightForm* PreparedWeights::MakeForm(
    const void* key, size_t bytes,
    const std::function<std::unique_ptr<WeightForm>()>& make) const {
  // Every product comes here once the budget is used up: without a lock.
  if (budget_ != nullptr && budget_->left() < bytes) return nullptr;
  const std::lock_guard lock(making_);
  if (const WeightForm* made = FindForm(key)) return made;
  if (budget_ != nullptr && !budget_->Take(bytes)) return nullptr;
  std::unique_ptr<WeightForm> form;
  try {
    form = make();
    if (release_) release_();
  } catch (...) {
    if (budget_ != nullptr) budget_->Give(bytes);
    throw;
  }
  if (budget_ != nullptr) charged_ += bytes;
  form->key_ = key;
  form->next_ = forms_.load(std::memory_order_relaxed);
  forms_.store(form.get(), std::memory_order_release);
  return form.release();
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

void LimitPrepared(std::span<const std::shared_ptr<PreparedWeights>> weights,
                   const std::shared_ptr<MemoryBudget>& budget) {
  for (const auto& one : weights) one->set_budget(budget);
}

void Expect(Context& context, const PreparedWeights& weights, int64_t rows) {
  context.device().is_cpu() ? ExpectHalfLines(context, weights, rows)
                            : ExpectOnDevice(context, weights, rows);
}

size_t PreparedBytes(const PreparedWeights& weights) { return weights.bytes(); }

size_t MostPreparedBytes(const PreparedWeights& weights) {
  const MatmulProblem problem = {.n = weights.n(), .k = weights.k()};
  MatmulArgs args;
  args.weights = &weights;
  size_t bytes = 0;
  for (const auto& entry : MatmulImplementations().entries) {
    if (entry.kept_bytes == nullptr) continue;
    bytes += entry.kept_bytes({problem, args});
  }
  return bytes;
}

const FormKey<DeviceWeights>& DeviceWeightsKey(DType type) {
  static constexpr FormKey<DeviceWeights> kF32 = {"device f32"},
                                          kBF16 = {"device bf16"},
                                          kF16 = {"device f16"};
  switch (type) {
    case DType::kBF16:
      return kBF16;
    case DType::kF16:
      return kF16;
    default:
      return kF32;
  }
}

size_t MissingBytes(const PreparedWeights& weights, Device device, DType type) {
  const auto lies_there = [&](const ConstTensorView& part) {
    return weights.operand() == Operand::kTransposed && part.device == device &&
           part.type == type;
  };
  if (device.is_cpu() || weights.Find(DeviceWeightsKey(type)) != nullptr ||
      std::ranges::all_of(weights.matrices(), lies_there)) {
    return 0;
  }
  return static_cast<size_t>(BytesOf(type, weights.n() * weights.k()));
}

}  // namespace headwise
