// Weights, and what implementations of the product make of them. Door for
// implementations only; others see matmul.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "headwise/backend/cpu/large_memory.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {

// One thing that an implementation makes of weights.
struct WeightForm {
  virtual ~WeightForm() = default;
  virtual size_t bytes() const = 0;
};

class PreparedWeights {
 public:
  // The forms there are, by who makes them.
  enum class Kind : uint8_t {
    kCpuPacked,     // cpu/f32.cc
    kCpuHalfLines,  // cpu/half_rows.cc
    kCudaF32,       // cuda/weights.cc, and so on
    kCudaBf16,
    kCudaF16,
    kCount,
  };

  PreparedWeights(std::vector<ConstTensorView> parts, Operand operand,
                  std::function<void()> release);

  std::span<const ConstTensorView> parts() const { return parts_; }
  Operand operand() const { return operand_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }

  // The form of a kind, made by `make` at the first request for it.
  template <class Make>
  const WeightForm& Get(Kind kind, const Make& make) const {
    Slot& slot = slots_[static_cast<size_t>(kind)];
    std::call_once(slot.once, [&] {
      slot.form = make();
      if (release_) release_();
      slot.made.store(slot.form.get(), std::memory_order_release);
    });
    return *slot.form;
  }
  // The form of a kind, if it was made. (Another thread may be making it.)
  const WeightForm* Made(Kind kind) const {
    return slots_[static_cast<size_t>(kind)].made.load(
        std::memory_order_acquire);
  }
  size_t bytes() const;

  // Where a form may lie that is read as one long stream; may be null.
  const std::shared_ptr<LargeMemory>& memory() const { return memory_; }
  void set_memory(std::shared_ptr<LargeMemory> memory) {
    memory_ = std::move(memory);
  }

 private:
  struct Slot {
    std::once_flag once;
    std::unique_ptr<WeightForm> form;
    std::atomic<const WeightForm*> made = nullptr;
  };

  std::vector<ConstTensorView> parts_;
  Operand operand_;
  std::function<void()> release_;
  int64_t n_ = 0;
  int64_t k_ = 0;
  mutable std::array<Slot, static_cast<size_t>(Kind::kCount)> slots_;
  std::shared_ptr<LargeMemory> memory_;
};

// The form that a GPU multiplies in a type.
PreparedWeights::Kind CudaKindOf(DType type);

// Expect for a device: cuda/expect.cu, or no_cuda/.
void ExpectOnDevice(Context& context, const PreparedWeights& weights,
                    int64_t rows);

}  // namespace headwise
