// Weights, and the forms that implementations of the product make of them. Door
// for implementations only; others see matmul.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "headwise/backend/cpu/large_memory.h"
#include "headwise/base/memory_budget.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {

// Weights laid out anew by an implementation, for its products.
class WeightForm {
 public:
  virtual ~WeightForm() = default;
  virtual size_t bytes() const = 0;

 private:
  friend class PreparedWeights;
  const void* key_ = nullptr;
  const WeightForm* next_ = nullptr;  // of the same weights, made before
};

// Names a form and tells its type: one object of static storage in the file
// that makes the form. Its address is the key.
template <class Form>
struct FormKey {
  const char* name = "";  // "cpu.f32"
};

class PreparedWeights {
 public:
  PreparedWeights(std::vector<ConstTensorView> parts, Operand operand,
                  std::function<void()> release);
  ~PreparedWeights();
  PreparedWeights(const PreparedWeights&) = delete;
  PreparedWeights& operator=(const PreparedWeights&) = delete;

  std::span<const ConstTensorView> matrices() const { return parts_; }
  Operand operand() const { return operand_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }

  // The form of a key, if it was made; without a lock. (Another thread may be
  // making it.)
  template <class Form>
  const Form* Find(const FormKey<Form>& key) const {
    return static_cast<const Form*>(FindForm(&key));
  }
  // The form of a key, made by `make` of `bytes()` bytes at the first request
  // for it. Null where the budget has fewer left: the product then reads the
  // parts.
  template <class Form, class Bytes, class Make>
  const Form* Get(const FormKey<Form>& key, const Bytes& bytes,
                  const Make& make) const {
    if (const Form* made = Find(key)) return made;
    return static_cast<const Form*>(
        MakeForm(&key, bytes(),
                 [&]() -> std::unique_ptr<WeightForm> { return make(); }));
  }
  size_t bytes() const;

  // Where a form may lie that is read as one long stream; may be null.
  const std::shared_ptr<LargeMemory>& memory() const { return memory_; }
  void set_memory(std::shared_ptr<LargeMemory> memory) {
    memory_ = std::move(memory);
  }
  // Forms draw on it; null: there is no limit. Before the first is made.
  void set_budget(std::shared_ptr<MemoryBudget> budget) {
    budget_ = std::move(budget);
  }

 private:
  const WeightForm* FindForm(const void* key) const {
    const WeightForm* form = forms_.load(std::memory_order_acquire);
    while (form != nullptr && form->key_ != key) form = form->next_;
    return form;
  }
  const WeightForm* MakeForm(
      const void* key, size_t bytes,
      const std::function<std::unique_ptr<WeightForm>()>& make) const;

  std::vector<ConstTensorView> parts_;
  Operand operand_;
  std::function<void()> release_;
  int64_t n_ = 0;
  int64_t k_ = 0;
  // The form made last; each is complete before it appears here.
  mutable std::atomic<const WeightForm*> forms_ = nullptr;
  mutable std::mutex making_;   // one form at a time
  mutable size_t charged_ = 0;  // bytes that were taken from the budget
  std::shared_ptr<LargeMemory> memory_;
  std::shared_ptr<MemoryBudget> budget_;
};

// A copy on a device, as its entries multiply weights of a type: matrices
// [n, k] side by side.
struct DeviceWeights : WeightForm {
  Tensor memory;
  ConstTensorView whole;  // without the padding
  size_t bytes() const override { return memory.bytes(); }
};
const FormKey<DeviceWeights>& DeviceWeightsKey(DType type);

// Expect for a device: cuda/expect.cu, or no_cuda/.
void ExpectOnDevice(Context& context, const PreparedWeights& weights,
                    int64_t rows);

}  // namespace headwise
