// Tensors for tests of the attention operator: any layout, and gaps that show
// whether somebody touched what is not theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/tensor.h"

namespace headwise {

enum class Layout {
  kDense,
  kRandom,  // outer axes in any order, sizes padded, start not aligned
};

// An owned tensor whose last stride is 1. All of it starts as poison: NaN with
// a payload of its own (integers: an unlikely value), gaps included.
class TestTensor {
 public:
  TestTensor(DType type, const std::vector<int64_t>& shape, Layout layout,
             Rng& rng);

  TensorView view() const { return view_; }
  // All of it, gaps included.
  std::span<std::byte> memory() const {
    return {memory_.get(), static_cast<size_t>(BytesOf(view_.type, slots_))};
  }
  void Poison();
  void FillUniform(Rng& rng, double low, double high);

  // Elements of the view, in row-major order.
  int64_t size() const;
  // Offset of element n, counted in row-major order.
  int64_t Offset(int64_t n) const;
  double Get(int64_t n) const;
  void Set(int64_t n, double value);
  // Index of element n along an axis.
  int64_t Index(int64_t n, int axis) const;
  std::string IndexText(int64_t n) const;
  bool IsPoison(int64_t n) const { return SlotIsPoison(Offset(n)); }
  // Whether everything outside the view is still poison.
  bool GapsIntact() const;
  bool SameBits(const TestTensor& other) const;

 private:
  bool SlotIsPoison(int64_t slot) const;

  TensorView view_;
  TensorView flat_;        // from the first element on, in a row
  bool is_dense_ = false;  // element n is slot n from the first on
  int64_t slots_ = 0;      // elements allocated
  int64_t start_ = 0;      // slot of the first element
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace headwise
