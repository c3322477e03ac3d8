#include "headwise/ops/attention/testing/test_tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "headwise/tensor/element.h"

namespace headwise {
namespace {

uint64_t PoisonBits(DType type) {
  switch (type) {
    case DType::kF32:
      return 0x7fc5a5a5;
    case DType::kF64:
      return 0x7ff8a5a5a5a5a5a5;
    case DType::kBF16:
    case DType::kF16:
      return 0x7fe5;
    default:
      return 0x5a5a5a5a5a5a5a5a;
  }
}

}  // namespace

TestTensor::TestTensor(DType type, const std::vector<int64_t>& shape,
                       Layout layout, Rng& rng) {
  const int rank = static_cast<int>(shape.size());
  view_.type = type;
  view_.rank = rank;
  std::copy(shape.begin(), shape.end(), view_.shape.begin());
  std::vector<int> order(rank);  // axes, outermost first
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> room = shape;
  if (layout == Layout::kRandom) {
    for (int axis = rank - 2; axis > 0; --axis) {
      std::swap(order[axis], order[rng.Below(axis + 1)]);
    }
    for (int64_t& size : room) size += rng.Between(0, 2);
    start_ = rng.Between(0, 3);
  }
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    view_.stride[order[i]] = step;
    step *= room[order[i]];
  }
  // To the last element and no further, so that a sanitizer sees an overrun.
  slots_ = start_ + 1;
  for (int axis = 0; axis < rank; ++axis) {
    slots_ += view_.stride[axis] * std::max<int64_t>(shape[axis] - 1, 0);
  }
  memory_ = std::make_unique<std::byte[]>(BytesOf(type, slots_));
  view_.data = memory_.get() + BytesOf(type, start_);
  flat_ = TensorView(view_.data, type, {slots_ - start_});
  is_dense_ = slots_ - start_ == std::max<int64_t>(size(), 1) &&
              std::is_sorted(order.begin(), order.end());
  Poison();
}

void TestTensor::Poison() {
  const uint64_t bits = PoisonBits(view_.type);
  const int64_t bytes = ElementSize(view_.type);
  for (int64_t slot = 0; slot < slots_; ++slot) {
    std::memcpy(memory_.get() + slot * bytes, &bits, bytes);
  }
}

void TestTensor::FillUniform(Rng& rng, double low, double high) {
  for (int64_t n = 0; n < size(); ++n) {
    Set(n, low + (high - low) * rng.Uniform());
  }
}

int64_t TestTensor::size() const {
  int64_t count = 1;
  for (int axis = 0; axis < view_.rank; ++axis) count *= view_.shape[axis];
  return count;
}

int64_t TestTensor::Offset(int64_t n) const {
  if (is_dense_) return start_ + n;
  int64_t offset = 0;
  for (int axis = view_.rank - 1; axis >= 0; --axis) {
    offset += n % view_.shape[axis] * view_.stride[axis];
    n /= view_.shape[axis];
  }
  return start_ + offset;
}

double TestTensor::Get(int64_t n) const {
  return Read(ConstTensorView(flat_), Offset(n) - start_);
}

void TestTensor::Set(int64_t n, double value) {
  Write(flat_, value, Offset(n) - start_);
}

int64_t TestTensor::Index(int64_t n, int axis) const {
  for (int a = view_.rank - 1; a > axis; --a) n /= view_.shape[a];
  return n % view_.shape[axis];
}

std::string TestTensor::IndexText(int64_t n) const {
  std::string text = "[";
  for (int axis = 0; axis < view_.rank; ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(Index(n, axis));
  }
  return text + "]";
}

bool TestTensor::SlotIsPoison(int64_t slot) const {
  const uint64_t bits = PoisonBits(view_.type);
  return std::memcmp(memory_.get() + BytesOf(view_.type, slot), &bits,
                     ElementSize(view_.type)) == 0;
}

bool TestTensor::GapsIntact() const {
  if (is_dense_ && slots_ == size()) return true;
  std::vector<bool> inside(slots_);
  for (int64_t n = 0; n < size(); ++n) inside[Offset(n)] = true;
  for (int64_t slot = 0; slot < slots_; ++slot) {
    if (!inside[slot] && !SlotIsPoison(slot)) return false;
  }
  return true;
}

bool TestTensor::SameBits(const TestTensor& other) const {
  return slots_ == other.slots_ &&
         std::memcmp(memory_.get(), other.memory_.get(),
                     BytesOf(view_.type, slots_)) == 0;
}

}  // namespace headwise
